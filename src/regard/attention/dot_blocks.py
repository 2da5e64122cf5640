"""Scaled dot-product attention with dropped weights, a few queries at a time.

    out = (softmax(q kᵀ/√d + bias) · kept / share) v

torch's fused kernel has no dropout on a processor: it writes out all weights and draws a float for
each, three to five times the time. Shapes: b batch, h heads, i query, j key, d head width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention.mask import Grid, Mask
from regard.attention.query_blocks import Block, BlockSize, Chances, blocks, gradients, mixed
from regard.attention.rule import Asked

SIZE = BlockSize(values=2**20, queries=64)


def dropped_dot(asked: Asked) -> Tensor:
    """(b,h,i,d)"""
    q, k, v, bias = asked.q, asked.k, asked.v, asked.bias
    if bias is not None:
        bias = bias.expand(*bias.shape[:-2], q.shape[-2], k.shape[-2])
    with torch.autocast(q.device.type, enabled=False):
        out: Tensor = _InBlocks.apply(  # type: ignore[no-untyped-call]
            q.contiguous() / math.sqrt(q.shape[-1]),
            k.contiguous(),
            v.contiguous(),
            bias,
            Chances.of(asked),
            (asked.mask, asked.grid),
        )
    return out


class _InBlocks(Function):
    """softmax(q kᵀ + bias) v; q is scaled already."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        chances: Chances,
        asked: tuple[Mask, Grid],
    ) -> Tensor:
        out = q.new_zeros(*q.shape[:-1], v.shape[-1])
        totals = q.new_zeros(*q.shape[:-1], 1)
        for block in _blocks(q, k, *asked):
            scores = _scores(q, k, bias, block)
            kept = chances.kept(block, dtype=q.dtype)
            block_out, total = mixed(scores, block.keys(v), kept)
            block.queries(out).copy_(block_out)
            block.queries(totals).copy_(total)
        ctx.save_for_backward(q, k, v, bias, totals)
        ctx.asked, ctx.chances = asked, chances
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, totals = ctx.saved_tensors
        d_q, d_k, d_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        # The bias may be one row seen as many, and its gradient has to be written.
        d_bias = bias.new_zeros(bias.shape) if ctx.needs_input_grad[3] else None
        for block in _blocks(q, k, *ctx.asked):
            weights = _scores(q, k, bias, block).sub_(block.queries(totals)).exp_()
            kept = ctx.chances.kept(block, dtype=q.dtype)
            d_scores, block_d_v = gradients(weights, block.queries(d_out), block.keys(v), kept)
            block.keys(d_v).add_(block_d_v)
            block.queries(d_q).copy_(d_scores @ block.keys(k))
            block.keys(d_k).add_(d_scores.transpose(-2, -1) @ block.queries(q))
            if d_bias is not None:
                d_block = block.pairs(d_bias)
                d_block.add_(d_scores.sum_to_size(d_block.shape))
        return d_q, d_k, d_v, d_bias, None, None


def _scores(q: Tensor, k: Tensor, bias: Tensor | None, block: Block) -> Tensor:
    """(b,h,i,j), −∞ where forbidden"""
    scores = block.queries(q) @ block.keys(k).transpose(-2, -1)
    if bias is not None:
        scores += block.pairs(bias)
    return scores.add_(block.barred)


def _blocks(q: Tensor, k: Tensor, mask: Mask, grid: Grid) -> Iterator[Block]:
    return blocks((*q.shape[:3], k.shape[2]), mask=mask, grid=grid, size=SIZE)
