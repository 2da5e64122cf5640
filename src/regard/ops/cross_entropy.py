"""The loss of predicting tokens, without ever holding the scores of all places at once.

    loss_i = log Σ_v exp(x_i · e_v) − x_i · e_target        e = the output layer's table

At a vocabulary of thousands the scores are the largest tensor of a step by far: rows are taken a
few at a time, and the gradient is computed together with the loss, while a chunk's scores are
still at hand. Each pass over them costs about as much as a product, so there are only two: scores
become exp(x_i · e_v), and are summed; what they have to be divided by and what was to be told goes
to the gradients' far smaller rows. Scores are made as powers of 2, which are quicker to raise than
those of e. Where a sum leaves the middle of what a float can hold, the chunk is scored again and
its largest taken off first. `reference_losses` is the readable oracle.

Smoothed, a share ε of each target goes to all v tokens alike (Szegedy et al., 2016):

    loss_i = log Σ_v exp(x_i · e_v) − (1 − ε) x_i · e_target − ε/v Σ_v x_i · e_v

Shapes: n places, w model width, v vocabulary.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.ops.cpu import cross_entropy as kernel
from regard.ops.softmax_exp2 import LOG2_E, in_safe_range

SCORES = 2**23
"Held at once, at most, where no kernel does it: 32 MB. More fall out of the cache between passes."
ROWS_OF_A_PRODUCT = 64
"torch's kernels take places by so many; others at the end of a chunk take longer."


def weighted_cross_entropy(
    x: Tensor, table: Tensor, *, targets: Tensor, weights: Tensor, smoothing: float = 0.0
) -> Tensor:
    """Σ weight · loss; x (…,w), table (v,w), targets and weights (…)."""
    x, targets, each = x.flatten(0, -2), targets.flatten(), weights.flatten()
    counts = each > 0
    if not bool(counts.all()):  # padding, and what is given and not told: never scored
        x, targets, each = x[counts], targets[counts], each[counts]
    total: Tensor = _WeightedLoss.apply(  # type: ignore[no-untyped-call]
        x.to(table.dtype), table, targets, each, smoothing
    )
    return total


def token_losses(x: Tensor, table: Tensor, *, targets: Tensor) -> Tensor:
    """−log p(target) at each place, in nats, in the shape of the targets."""
    size = rows_at_once(len(table))
    rows = torch.split(x.flatten(0, -2).to(table.dtype), size)
    chunks = zip(rows, torch.split(targets.flatten(), size), strict=True)
    return torch.cat([reference_losses(row, table, target) for row, target in chunks]).view_as(
        targets
    )


def reference_losses(
    x: Tensor, table: Tensor, targets: Tensor, *, smoothing: float = 0.0
) -> Tensor:
    """(n,w), (v,w), (n) -> (n): the definition, all scores at once."""
    return F.cross_entropy(x @ table.T, targets, reduction="none", label_smoothing=smoothing)


class _WeightedLoss(Function):
    """Σ weight · loss, with the gradient of x and of the table found on the way."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, table: Tensor, targets: Tensor, weights: Tensor, smoothing: float
    ) -> Tensor:
        weights = weights.to(table.dtype)
        wants_x, wants_table = ctx.needs_input_grad[:2]
        normalisers, x_gradient, table_gradient = _passed(
            x, table, weights, wants_x=wants_x, wants_table=wants_table
        )
        told = table[targets]
        if smoothing:
            told = torch.lerp(told, table.mean(dim=0), smoothing)
        losses = normalisers - (x * told).sum(dim=-1)
        if x_gradient is not None:
            x_gradient -= told * weights[:, None]
        if table_gradient is not None:
            weighted = x * weights[:, None]
            table_gradient.index_add_(0, targets, weighted, alpha=smoothing - 1)
            if smoothing:
                table_gradient -= weighted.sum(dim=0) * (smoothing / len(table))
        ctx.gradients = (x_gradient, table_gradient)
        return (losses * weights).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if g is None else g * upstream for g in ctx.gradients)
        return (*scaled, None, None, None)


class _Passed(NamedTuple):
    """What one pass over all scores finds: the targets are not known to it."""

    normalisers: Tensor
    "(n): log Σ_v exp(x · e_v)"
    x_gradient: Tensor | None
    "(n,w), of Σ weight · normaliser"
    table_gradient: Tensor | None
    "(v,w), likewise"


def _passed(
    x: Tensor, table: Tensor, weights: Tensor, *, wants_x: bool, wants_table: bool
) -> _Passed:
    in_twos = x * LOG2_E
    if kernel.supports(x, table):
        found = kernel.logits_pass(
            x, table, in_twos=in_twos, weights=weights, wants_x=wants_x, wants_table=wants_table
        )
        if in_safe_range(found.mass):
            return _Passed(found.mass.log(), found.d_x, found.d_table)
    return _in_chunks(x, table, weights, in_twos, wants_x=wants_x, wants_table=wants_table)


def _in_chunks(
    x: Tensor,
    table: Tensor,
    weights: Tensor,
    in_twos: Tensor,
    *,
    wants_x: bool,
    wants_table: bool,
) -> _Passed:
    normalisers = x.new_empty(len(x))
    x_gradient = torch.empty_like(x) if wants_x else None
    table_gradient = torch.zeros_like(table) if wants_table else None
    size = rows_at_once(len(table))
    room = table.new_empty(min(size, len(x)), len(table))
    for begin in range(0, len(x), size):
        rows = slice(begin, begin + size)
        chunk, mass = _exponentials(in_twos[rows], table, room, normalisers[rows])
        # softmax(scores) = chunk / mass, and the weight beside it.
        factor = weights[rows, None] / mass
        if x_gradient is not None:
            torch.mul(torch.mm(chunk, table), factor, out=x_gradient[rows])
        if table_gradient is not None:
            table_gradient.addmm_(chunk.T, x[rows] * factor)
    return _Passed(normalisers, x_gradient, table_gradient)


def rows_at_once(vocabulary: int) -> int:
    return max(1, SCORES // vocabulary // ROWS_OF_A_PRODUCT) * ROWS_OF_A_PRODUCT


def _exponentials(
    in_twos: Tensor, table: Tensor, room: Tensor, normalisers: Tensor
) -> tuple[Tensor, Tensor]:
    """2^scores, (n,v), up to a factor a row, in `room`, and what a row of them sums to, (n,1);
    fills `normalisers` (n) with the natural logarithm of that sum."""
    scores = partial(torch.mm, in_twos, table.T, out=room[: len(in_twos)])
    chunk = scores().exp2_()
    mass = chunk.sum(dim=-1, keepdim=True)
    normalisers.copy_(mass.log().squeeze(1))
    if in_safe_range(mass):
        return chunk, mass
    chunk = scores()
    largest = chunk.amax(dim=-1, keepdim=True)
    mass = chunk.sub_(largest).exp2_().sum(dim=-1, keepdim=True)
    normalisers.copy_((mass.log() + largest / LOG2_E).squeeze(1))
    return chunk, mass
