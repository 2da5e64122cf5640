"""Scaled dot-product attention in query blocks, with its own backward pass.

    out = (softmax(q kᵀ/√d + bias) · keep / keep_probability) v

On the CPU torch's fused kernel computes every pair of a row of up to 512 keys, including those that
a causal mask forbids, and has no dropout. Here batched matmuls compute what a block can reach. Each
pass over the pairs costs half as much as a matmul, so there are few: scores become exp(score) and
are summed, and the division by the denominator is moved to the far smaller outputs and gradients.
Scores are log2-scaled, because exp2 is faster than exp. Where a denominator over- or underflows,
the blocks are computed again with each query's maximum score subtracted.

Shapes: b batch, h heads, i query, j key, d head width; r = b·h rows. Masks: True = may attend.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention.function import AttentionInputs
from regard.attention.paths.query_blocks import (
    BlockedAttention,
    BlockSize,
    QueryBlock,
    expand_bias,
)
from regard.core.process.host import without_autocast
from regard.ops.softmax_exp2 import LOG2_E, in_safe_range

SIZE = BlockSize(values=2**21, queries=64)


def dot_blocks(inputs: AttentionInputs, blocked: BlockedAttention) -> Tensor:
    """(b,h,i,d)"""
    with without_autocast(inputs.q.device):
        bias = expand_bias(inputs, inputs.q.dtype)
        q, k, v = (x.contiguous() for x in (inputs.q, inputs.k, inputs.v))
        out: Tensor = _DotBlocks.apply(q, k, v, bias, blocked)  # type: ignore[no-untyped-call]
    return out


class _Workspace(threading.local):
    """Buffers reused by all blocks and layers: allocating memory takes longer than filling it."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype], Tensor] = {}

    def matmul(self, name: str, a: Tensor, b: Tensor, *, scale: float = 1.0) -> Tensor:
        """(r,i,m), (r,m,j) -> (r,i,j); overwrites the last result of the same name."""
        shape = (*a.shape[:2], b.shape[2])
        size = math.prod(shape)
        buffer = self._buffers.get((name, a.dtype))
        if buffer is None or buffer.shape[0] < size:
            buffer = torch.empty(max(size, SIZE.values), dtype=a.dtype)
            self._buffers[name, a.dtype] = buffer
        out = buffer.narrow(0, 0, size).view(shape)
        return torch.baddbmm(out, a, b, beta=0, alpha=scale, out=out)


_WORKSPACE = _Workspace()


class _Pairs:
    """Queries and keys, whose scores are computed a block at a time."""

    def __init__(
        self, q: Tensor, k: Tensor, bias: Tensor | None, blocked: BlockedAttention
    ) -> None:
        self.q, self.k, self.bias, self.blocked = q.flatten(0, 1), k.flatten(0, 1), bias, blocked
        self.shape = (*q.shape[:3], k.shape[2])
        self.scale = float(q.shape[-1] ** -0.5)

    def blocks(self) -> Iterator[tuple[QueryBlock, slice]]:
        """Each with its slice of the r rows."""
        heads = self.shape[1]
        for block in self.blocked.blocks(self.shape, SIZE):
            yield block, slice(block.batch.start * heads, block.batch.stop * heads)

    def by_head(self, x: Tensor) -> Tensor:
        """(r,…) -> (b,h,…)"""
        return x.view(-1, self.shape[1], *x.shape[1:])

    def scores(self, block: QueryBlock, r: slice) -> Tensor:
        """(r,i,j), log2-scaled, not masked."""
        q, k = self.q[r, block.rows], self.k[r, block.columns]
        scores = _WORKSPACE.matmul("pairs", q, k.mT, scale=self.scale * LOG2_E)
        if self.bias is not None:
            self.by_head(scores).add_(block.pairs(self.bias), alpha=LOG2_E)
        return scores

    def exponentials(self, block: QueryBlock, r: slice, maximum: Tensor | None) -> Tensor:
        """exp(score), (r,i,j), 0 where forbidden; each query's maximum is subtracted first, if
        given."""
        scores = self.scores(block, r)
        if maximum is not None:
            block.mask_scores_(self.by_head(scores)).sub_(block.queries(maximum)).exp2_()
        else:
            # exp2 of −∞ is slower than of finite values: forbidden pairs are zeroed afterwards.
            block.mask_exponentials_(self.by_head(scores.exp2_()))
        return scores

    def maximum(self) -> Tensor:
        """The maximum score of each query, (b,h,i,1), log2-scaled; 0 where it is fully masked."""
        maximum = self.q.new_zeros(*self.shape[:3], 1)
        for block, r in self.blocks():
            scores = block.mask_scores_(self.by_head(self.scores(block, r)))
            block_maximum = scores.amax(dim=-1, keepdim=True).nan_to_num_(neginf=0.0)
            block.queries(maximum).copy_(block_maximum)
        return maximum


class _DotBlocks(Function):
    """softmax(q kᵀ/√d + bias) v, holding the pairs of one block at a time."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, blocked: BlockedAttention
    ) -> Tensor:
        pairs, maximum = _Pairs(q, k, bias, blocked), None
        out, denominator = _softmax_mix(pairs, v, maximum)
        if not in_safe_range(denominator):
            maximum = pairs.maximum()
            out, denominator = _softmax_mix(pairs, v, maximum)
        ctx.save_for_backward(q, k, v, bias, out, denominator, maximum)
        ctx.blocked = blocked
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, out, denominator, maximum = ctx.saved_tensors
        blocked, pairs = ctx.blocked, _Pairs(q, k, bias, ctx.blocked)
        # Delta = rowsum(dO ∘ O); both it and d_mixed are divided here, instead of the weights.
        delta = (d_out * out).sum(dim=-1, keepdim=True).div_(denominator).flatten(0, 1)
        d_mixed = torch.div(
            d_out, denominator * blocked.keep_probability, out=d_out.new_empty(d_out.shape)
        )
        d_mixed, values = d_mixed.flatten(0, 1), v.flatten(0, 1)
        d_q, d_k, d_v = (_zeros_heads_last(x) for x in (q, k, v))
        # The bias may be an expanded view, but its gradient needs its own memory.
        d_bias = bias.new_zeros(bias.shape) if ctx.needs_input_grad[3] else None
        for block, r in pairs.blocks():
            weights, d_block = pairs.exponentials(block, r, maximum), d_mixed[r, block.rows]
            d_scores = _WORKSPACE.matmul("gradients", d_block, values[r, block.columns].mT)
            dropped, keep_mask = weights, blocked.keep_mask(block, v.dtype)
            if keep_mask is not None:
                d_scores.mul_(keep_mask.flatten(0, 1))
                dropped = keep_mask.flatten(0, 1).mul_(weights)
            block_d_v = _WORKSPACE.matmul("rows", dropped.mT, d_block)
            block.keys(d_v).add_(pairs.by_head(block_d_v))
            block_delta = delta[r, block.rows]
            if maximum is not None:
                # Scores so large leave one weight of 1: where rowsum(dO ∘ O) rounds otherwise than
                # dO · v, their difference is multiplied by as large a key.
                total = denominator.flatten(0, 1)[r, block.rows]
                block_delta = (d_scores * weights).sum(dim=-1, keepdim=True).div_(total)
            d_scores.sub_(block_delta).mul_(weights)
            if d_bias is not None:
                d_pairs = block.pairs(d_bias)
                d_pairs.add_(pairs.by_head(d_scores).sum_to_size(d_pairs.shape))
            block_q, block_k = pairs.q[r, block.rows], pairs.k[r, block.columns]
            block_d_q = _WORKSPACE.matmul("rows", d_scores, block_k, scale=pairs.scale)
            block.queries(d_q).copy_(pairs.by_head(block_d_q))
            block_d_k = _WORKSPACE.matmul("rows", d_scores.mT, block_q, scale=pairs.scale)
            block.keys(d_k).add_(pairs.by_head(block_d_k))
        return d_q, d_k, d_v, d_bias, None


def _softmax_mix(pairs: _Pairs, v: Tensor, maximum: Tensor | None) -> tuple[Tensor, Tensor]:
    """Outputs (b,h,i,d) and softmax denominators (b,h,i,1). A fully masked query has the
    denominator 0; if maxima are given, the denominator 1 and outputs of zeros."""
    blocked, values = pairs.blocked, v.flatten(0, 1)
    out = _zeros_heads_last(v, length=pairs.shape[2])
    denominators = v.new_zeros(*pairs.shape[:3], 1)
    for block, r in pairs.blocks():
        weights = pairs.exponentials(block, r, maximum)
        denominator = block.queries(denominators)
        torch.sum(pairs.by_head(weights), dim=-1, keepdim=True, out=denominator)
        if (keep_mask := blocked.keep_mask(block, v.dtype)) is not None:
            weights.mul_(keep_mask.flatten(0, 1))
        if maximum is not None:
            denominator.masked_fill_(denominator == 0, 1.0)
        # Divided after the matmul: there are fewer outputs than weights.
        block_out = _WORKSPACE.matmul(
            "rows", weights, values[r, block.columns], scale=1 / blocked.keep_probability
        )
        torch.div(pairs.by_head(block_out), denominator, out=block.queries(out))
    if maximum is not None:  # also in blocks that reach no key, which were left out
        denominators.masked_fill_(denominators == 0, 1.0)
    return out, denominators


def _zeros_heads_last(x: Tensor, *, length: int | None = None) -> Tensor:
    """Zeros (b,h,i,d), in memory (b,i,h,d), as the projections around attention read them."""
    b, h, i, d = x.shape
    return x.new_zeros(b, i if length is None else length, h, d).transpose(1, 2)
