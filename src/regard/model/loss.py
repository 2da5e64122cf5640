"""The loss of predicting tokens, without ever holding the scores of all places at once.

    loss_i = log Σ_v exp(x_i · e_v) − x_i · e_target        e = the output layer's table

At a vocabulary of thousands the scores are the largest tensor of a step by far: rows are taken a
few hundred at a time, and the gradient is computed together with the loss, while a chunk's scores
are still at hand. `plain_losses` is the readable oracle.

Smoothed, a share ε of each target goes to all v tokens alike (Szegedy et al., 2016):

    loss_i = log Σ_v exp(x_i · e_v) − (1 − ε) x_i · e_target − ε/v Σ_v x_i · e_v

A loss term is a sum and the weight it is to be divided by, kept apart: terms of several
micro-batches then add up exactly to those of the whole batch.

Shapes: n places, w model width, v vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

ROWS_AT_ONCE = 256


class LossTerm(NamedTuple):
    sum: Tensor
    weight: Tensor


def token_term(
    x: Tensor, table: Tensor, *, targets: Tensor, weights: Tensor, smoothing: float = 0.0
) -> LossTerm:
    """The weighted loss of all places; x (…,w), table (v,w), targets and weights (…)."""
    x, targets, each = x.flatten(0, -2), targets.flatten(), weights.flatten()
    counts = each > 0
    if not bool(counts.all()):  # padding, and what is given and not told: never scored
        x, targets, each = x[counts], targets[counts], each[counts]
    total = _WeightedLoss.apply(  # type: ignore[no-untyped-call]
        x.to(table.dtype), table, targets, each, smoothing
    )
    return LossTerm(total, weights.sum())


def token_losses(x: Tensor, table: Tensor, *, targets: Tensor) -> Tensor:
    """−log p(target) at each place, in nats, in the shape of the targets."""
    rows = torch.split(x.flatten(0, -2).to(table.dtype), ROWS_AT_ONCE)
    chunks = zip(rows, torch.split(targets.flatten(), ROWS_AT_ONCE), strict=True)
    return torch.cat([plain_losses(row, table, target) for row, target in chunks]).view_as(targets)


def plain_losses(x: Tensor, table: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """(n,w), (v,w), (n) -> (n): the definition, all scores at once."""
    return F.cross_entropy(x @ table.T, targets, reduction="none", label_smoothing=smoothing)


class _WeightedLoss(Function):
    """Σ weight · loss, with the gradient of x and of the table found on the way."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, table: Tensor, targets: Tensor, weights: Tensor, smoothing: float
    ) -> Tensor:
        weights = weights.to(table.dtype)
        total = x.new_zeros(())
        wants_x, wants_table = ctx.needs_input_grad[:2]
        x_gradient = torch.empty_like(x) if wants_x else None
        table_gradient = torch.zeros_like(table) if wants_table else None
        for begin in range(0, len(x), ROWS_AT_ONCE):
            rows = slice(begin, begin + ROWS_AT_ONCE)
            target = targets[rows, None]
            scores = x[rows] @ table.T
            normaliser = scores.logsumexp(dim=-1, keepdim=True)
            told = scores.gather(1, target)
            if smoothing:
                told = torch.lerp(told, scores.mean(dim=1, keepdim=True), smoothing)
            loss = (normaliser - told).squeeze(1)
            total += (loss * weights[rows]).sum()
            # d loss / d scores = softmax(scores) − what was to be told, in the scores' own memory.
            slope = scores.sub_(normaliser).exp_()
            if smoothing:
                slope -= smoothing / len(table)
            hit = torch.full_like(target, smoothing - 1, dtype=slope.dtype)
            slope.scatter_add_(1, target, hit)
            slope *= weights[rows, None]
            if x_gradient is not None:
                torch.mm(slope, table, out=x_gradient[rows])
            if table_gradient is not None:
                table_gradient.addmm_(slope.T, x[rows])
        ctx.gradients = (x_gradient, table_gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if g is None else g * upstream for g in ctx.gradients)
        return (*scaled, None, None, None)
