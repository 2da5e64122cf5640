"""Scaled dot-product attention a block of queries at a time, with a backward pass of its own.

    out = (softmax(q kᵀ/√d + bias) · kept / share) v

On a processor torch's fused kernel makes every pair of a row of up to 512 keys, those that a causal
mask forbids among them, and has no dropout. Here products in a batch make what a block can reach.
Each pass over the pairs costs half as much as a product, so there are few: scores become
exp(score) and are summed, and what they are to be divided by goes to the far smaller rows of
outputs and gradients. Scores are made as powers of 2, which are quicker to raise than those of e.
Where a sum leaves the middle of what a float can hold, the blocks are made again and each query's
largest score is taken off first.

Shapes: b batch, h heads, i query, j key, d head width; r = b·h rows.
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
    bias_of_pairs,
)
from regard.ops.softmax_exp2 import LOG2_E, in_safe_range

SIZE = BlockSize(values=2**21, queries=64)


def dot_in_blocks(asked: AttentionInputs) -> Tensor:
    """(b,h,i,d)"""
    with torch.autocast(asked.q.device.type, enabled=False):
        bias = bias_of_pairs(asked, asked.q.dtype)
        return in_blocks(asked.q, asked.k, asked.v, bias, BlockedAttention.of(asked))


def in_blocks(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, setting: BlockedAttention
) -> Tensor:
    """(b,h,i,d)"""
    q, k, v = (x.contiguous() for x in (q, k, v))
    out: Tensor = _DotInBlocks.apply(q, k, v, bias, setting)  # type: ignore[no-untyped-call]
    return out


class _Rooms(threading.local):
    """Memory that block after block, and layer after layer, is made in: to be given new memory
    takes longer than to fill it."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, torch.dtype], Tensor] = {}

    def product(self, room: str, a: Tensor, b: Tensor, *, scale: float = 1.0) -> Tensor:
        """(r,i,m), (r,m,j) -> (r,i,j); overwrites what was made in this room before."""
        shape = (*a.shape[:2], b.shape[2])
        size = math.prod(shape)
        held = self._held.get((room, a.dtype))
        if held is None or held.shape[0] < size:
            held = self._held[room, a.dtype] = torch.empty(max(size, SIZE.values), dtype=a.dtype)
        made = held.narrow(0, 0, size).view(shape)
        return torch.baddbmm(made, a, b, beta=0, alpha=scale, out=made)


_ROOMS = _Rooms()


class _Pairs:
    """Queries and keys, whose pairs are made a block at a time."""

    def __init__(
        self, q: Tensor, k: Tensor, bias: Tensor | None, setting: BlockedAttention
    ) -> None:
        self.q, self.k, self.bias, self.setting = q.flatten(0, 1), k.flatten(0, 1), bias, setting
        self.shape = (*q.shape[:3], k.shape[2])
        self.scale = float(q.shape[-1] ** -0.5)

    def blocks(self) -> Iterator[tuple[QueryBlock, slice]]:
        """Each with its rows among r."""
        heads = self.shape[1]
        for block in self.setting.blocks(self.shape, SIZE):
            yield block, slice(block.batch.start * heads, block.batch.stop * heads)

    def by_head(self, x: Tensor) -> Tensor:
        """(r,…) -> (b,h,…)"""
        return x.view(-1, self.shape[1], *x.shape[1:])

    def scores(self, block: QueryBlock, r: slice) -> Tensor:
        """(r,i,j) in powers of 2, those that are forbidden as well."""
        q, k = self.q[r, block.rows], self.k[r, block.columns]
        scores = _ROOMS.product("pairs", q, k.mT, scale=self.scale * LOG2_E)
        if self.bias is not None:
            self.by_head(scores).add_(block.pairs(self.bias), alpha=LOG2_E)
        return scores

    def exponentials(self, block: QueryBlock, r: slice, shift: Tensor | None) -> Tensor:
        """exp(score), (r,i,j), 0 where forbidden; each query's shift is taken off first where
        there is one."""
        scores = self.scores(block, r)
        if shift is not None:
            block.bar(self.by_head(scores)).sub_(block.queries(shift)).exp2_()
        else:
            # To raise to −∞ takes longer than to a number: what is forbidden is cleared then.
            block.cleared(self.by_head(scores.exp2_()))
        return scores

    def largest(self) -> Tensor:
        """The largest score of each query, (b,h,i,1), in powers of 2; 0 where it sees no key."""
        found = self.q.new_zeros(*self.shape[:3], 1)
        for block, r in self.blocks():
            scores = block.bar(self.by_head(self.scores(block, r)))
            block.queries(found).copy_(scores.amax(dim=-1, keepdim=True).nan_to_num_(neginf=0.0))
        return found


class _DotInBlocks(Function):
    """softmax(q kᵀ/√d + bias) v, never holding the pairs of more than one block."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, setting: BlockedAttention
    ) -> Tensor:
        pairs, shift = _Pairs(q, k, bias, setting), None
        out, mass = _mixed(pairs, v, shift)
        if not in_safe_range(mass):
            shift = pairs.largest()
            out, mass = _mixed(pairs, v, shift)
        ctx.save_for_backward(q, k, v, bias, out, mass, shift)
        ctx.setting = setting
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, out, mass, shift = ctx.saved_tensors
        setting, pairs = ctx.setting, _Pairs(q, k, bias, ctx.setting)
        # What the softmax takes off each row; both are divided here by what weights are divided by.
        taken = (d_out * out).sum(dim=-1, keepdim=True).div_(mass).flatten(0, 1)
        d_mixed = torch.div(
            d_out, mass * setting.keep_probability, out=d_out.new_empty(d_out.shape)
        )
        d_mixed, values = d_mixed.flatten(0, 1), v.flatten(0, 1)
        d_q, d_k, d_v = (_by_place(x) for x in (q, k, v))
        # The bias may be one row seen as many, and its gradient has to be written.
        d_bias = bias.new_zeros(bias.shape) if ctx.needs_input_grad[3] else None
        for block, r in pairs.blocks():
            weights, d_block = pairs.exponentials(block, r, shift), d_mixed[r, block.rows]
            d_scores = _ROOMS.product("gradients", d_block, values[r, block.columns].mT)
            mixing, keep_mask = weights, setting.keep_mask(block, v.dtype)
            if keep_mask is not None:
                d_scores.mul_(keep_mask.flatten(0, 1))
                mixing = keep_mask.flatten(0, 1).mul_(weights)
            made = _ROOMS.product("rows", mixing.mT, d_block)
            block.keys(d_v).add_(pairs.by_head(made))
            d_scores.sub_(taken[r, block.rows]).mul_(weights)
            if d_bias is not None:
                d_pairs = block.pairs(d_bias)
                d_pairs.add_(pairs.by_head(d_scores).sum_to_size(d_pairs.shape))
            q_part, k_part = pairs.q[r, block.rows], pairs.k[r, block.columns]
            made = _ROOMS.product("rows", d_scores, k_part, scale=pairs.scale)
            block.queries(d_q).copy_(pairs.by_head(made))
            made = _ROOMS.product("rows", d_scores.mT, q_part, scale=pairs.scale)
            block.keys(d_k).add_(pairs.by_head(made))
        return d_q, d_k, d_v, d_bias, None


def _mixed(pairs: _Pairs, v: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor]:
    """Outputs (b,h,i,d), and the sums that weights are divided by, (b,h,i,1). A query that sees no
    key has the sum 0; with a shift it has the sum 1, and its outputs are zeros."""
    setting, values = pairs.setting, v.flatten(0, 1)
    out, masses = _by_place(v, positions=pairs.shape[2]), v.new_zeros(*pairs.shape[:3], 1)
    for block, r in pairs.blocks():
        weights, mass = pairs.exponentials(block, r, shift), block.queries(masses)
        torch.sum(pairs.by_head(weights), dim=-1, keepdim=True, out=mass)
        if (keep_mask := setting.keep_mask(block, v.dtype)) is not None:
            weights.mul_(keep_mask.flatten(0, 1))
        # Divided after the product: there are fewer outputs than weights.
        whole = mass if shift is None else mass.masked_fill_(mass == 0, 1.0)
        made = _ROOMS.product(
            "rows", weights, values[r, block.columns], scale=1 / setting.keep_probability
        )
        torch.div(pairs.by_head(made), whole, out=block.queries(out))
    if shift is not None:  # also where a block that reaches no key was left out
        masses.masked_fill_(masses == 0, 1.0)
    return out, masses


def _by_place(x: Tensor, *, positions: int | None = None) -> Tensor:
    """Zeros (b,h,i,d) that lie in memory as the layers around attention want them: (b,i,h,d)."""
    b, h, i, d = x.shape
    return x.new_zeros(b, i if positions is None else positions, h, d).transpose(1, 2)
