"""Additive attention a block of queries at a time, with a backward pass of its own; or by a kernel.

    inner = σ(query + key)      out = (softmax(w · inner + bias) · kept / share) v

Additive attention bends by tanh(u) = 2 σ(2u) − 1. The 1 is the same for every key, so the softmax
does not see it, and σ takes a third of the time of tanh: weight, query and key come in doubled.
Only a block's inner values are held, and computed anew in the backward pass.
Shapes: b batch, h heads, i query, j key, d head width, m width of the scoring network.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention.function import AttentionInputs, FastOutput
from regard.attention.paths import compiled
from regard.attention.paths.query_blocks import (
    BlockedAttention,
    BlockSize,
    QueryBlock,
    bias_of_pairs,
)

SIZE = BlockSize(values=2**20, queries=24)
"Of inner values 4 MB in float32: fewer spend their time on calls, more fall out of the cache."


class Halves(NamedTuple):
    """What scores are made of, whole or a block of it; or the gradients of these."""

    query: Tensor
    "(b,h,i,m): what queries bring into σ."
    key: Tensor
    "(b,h,j,m): what keys do."
    weight: Tensor
    "(h,m): the same for every pair."

    def of(self, block: QueryBlock) -> Halves:
        """Views, so that what is added to them is added to the whole."""
        return Halves(block.queries(self.query), block.keys(self.key), self.weight)

    def scores(self) -> tuple[Tensor, Tensor]:
        """(b,h,i,j), and the inner values (b,h,i,j,m)."""
        inner = (self.query[:, :, :, None] + self.key[:, :, None]).sigmoid_()
        # One product of a matrix and a vector for each head; torch would make one for each query.
        scores = inner.flatten(2, 3) @ self.weight[:, :, None]
        return scores.view(inner.shape[:-1]), inner

    def add(self, d_scores: Tensor, inner: Tensor) -> None:
        """To gradients: what the scores hand on, but for the weight that both halves' are to be
        multiplied by; uses up the inner values."""
        d_weight = d_scores.flatten(2)[:, :, None] @ inner.flatten(2, 3)
        self.weight.add_(d_weight.squeeze(2).sum(dim=0))
        # The slope of σ is σ − σ².
        bent = inner.addcmul_(inner, inner, value=-1).mul_(d_scores[..., None])
        self.query.add_(bent.sum(dim=3))
        self.key.add_(bent.sum(dim=2))


def additive(halves: Halves, v: Tensor, asked: AttentionInputs) -> FastOutput:
    """(b,h,i,d) by scores w · tanh(query + key); mask, bias and dropout are those that were asked
    for, in the type of `halves`."""
    doubled, setting = Halves(*(2 * half for half in halves)), BlockedAttention.of(asked)
    if compiled.takes(asked, doubled.query, doubled.key):
        found = compiled.additive_by_kernel(*doubled, v, setting)
        if found is not None:
            return FastOutput(found, "kernel")
    bias = bias_of_pairs(asked, halves.query.dtype)
    out: Tensor = _AdditiveInBlocks.apply(  # type: ignore[no-untyped-call]
        *doubled, v, bias, setting
    )
    return FastOutput(out, "query-blocks")


class _AdditiveInBlocks(Function):
    """softmax(scores + bias) v, never holding the inner values of more than one block."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        weight: Tensor,
        v: Tensor,
        bias: Tensor | None,
        setting: BlockedAttention,
    ) -> Tensor:
        halves = Halves(query, key, weight)
        out = v.new_zeros(*query.shape[:-1], v.shape[-1])
        totals = v.new_zeros(*query.shape[:-1], 1)
        for block in _blocks(halves, setting):
            scores, _ = _scores(halves, bias, block)
            block_out, total = _mixed(scores, block.keys(v), setting.keep_mask(block, v.dtype))
            block.queries(out).copy_(block_out.div_(setting.keep_probability))
            block.queries(totals).copy_(total)
        ctx.save_for_backward(*halves, v, bias, totals)
        ctx.setting = setting
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, v, bias, totals = ctx.saved_tensors
        setting, halves = ctx.setting, Halves(*tensors)
        d_halves, d_v = Halves(*map(torch.zeros_like, halves)), torch.zeros_like(v)
        # The bias may be one row seen as many, and its gradient has to be written.
        d_bias = bias.new_zeros(bias.shape) if ctx.needs_input_grad[4] else None
        d_mixed = d_out / setting.keep_probability
        for block in _blocks(halves, setting):
            scores, inner = _scores(halves, bias, block)
            weights = scores.sub_(block.queries(totals)).exp_()
            keep_mask = setting.keep_mask(block, v.dtype)
            d_scores, block_d_v = _gradients(
                weights, block.queries(d_mixed), block.keys(v), keep_mask
            )
            block.keys(d_v).add_(block_d_v)
            if d_bias is not None:
                d_block = block.pairs(d_bias)
                d_block.add_(d_scores.sum_to_size(d_block.shape))
            d_halves.of(block).add(d_scores, inner)
        # Once and not in every block.
        d_halves.query.mul_(halves.weight[:, None])
        d_halves.key.mul_(halves.weight[:, None])
        return (*d_halves, d_v, d_bias, None)


def _blocks(halves: Halves, setting: BlockedAttention) -> Iterator[QueryBlock]:
    b, h, queries, inner = halves.query.shape
    return setting.blocks((b, h, queries, halves.key.shape[2]), SIZE, inner=inner)


def _scores(halves: Halves, bias: Tensor | None, block: QueryBlock) -> tuple[Tensor, Tensor]:
    """(b,h,i,j), −∞ where forbidden, and the inner values."""
    scores, inner = halves.of(block).scores()
    if bias is not None:
        scores += block.pairs(bias)
    return block.bar(scores), inner


def _mixed(scores: Tensor, v: Tensor, keep_mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Outputs (b,h,i,d) and the log of the sum that weights are divided by (b,h,i,1); `scores` are
    used up. A row with no allowed key gives zeros."""
    largest = scores.amax(dim=-1, keepdim=True).nan_to_num_(neginf=0.0)
    mass = scores.sub_(largest).exp_().sum(dim=-1, keepdim=True)
    if keep_mask is not None:
        scores.mul_(keep_mask)
    mass.masked_fill_(mass == 0, 1.0)
    return (scores @ v).div_(mass), mass.log().add_(largest)


def _gradients(
    weights: Tensor, d_out: Tensor, v: Tensor, keep_mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Of the scores (b,h,i,j) and of the values (b,h,j,d)."""
    d_weights = d_out @ v.transpose(-2, -1)
    if keep_mask is None:
        d_v = weights.transpose(-2, -1) @ d_out
    else:
        d_weights.mul_(keep_mask)
        d_v = keep_mask.mul_(weights).transpose(-2, -1) @ d_out
    d_scores = d_weights.mul_(weights)
    # What the softmax takes off each row is made of its own weights. Not d_out · out, which is the
    # same and rounds otherwise: where a query sees one key, nothing has to be left.
    return d_scores.addcmul_(weights, d_scores.sum(dim=-1, keepdim=True), value=-1), d_v
