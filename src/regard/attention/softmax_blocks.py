"""Softmax attention a block of queries at a time, with a backward pass of its own.

    weights = softmax(scores + bias)      out = (weights · kept / share) v

What a rule makes of a block's queries and keys is its own `Scoring`; the rest is the same for all:
what is forbidden, what is dropped, and how the gradient comes back to the scores. Only a block's
scores are held, and computed anew in the backward pass.
Shapes: b batch, h heads, i query, j key, d head width, m width of what a side brings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention.mask import Grid, Mask
from regard.attention.query_blocks import Block, BlockSize, Chances, blocks
from regard.attention.rule import Asked


class Sides(NamedTuple):
    """What scores are made of, whole or a block of it; or the gradients of these."""

    query: Tensor
    "(b,h,i,m)"
    key: Tensor
    "(b,h,j,m)"
    weight: Tensor | None = None
    "The scoring's own, the same for every pair."

    def of(self, block: Block) -> Sides:
        """Views, so that what is added to them is added to the whole."""
        return Sides(block.queries(self.query), block.keys(self.key), self.weight)

    def zeros(self) -> Sides:
        weight = None if self.weight is None else torch.zeros_like(self.weight)
        return Sides(torch.zeros_like(self.query), torch.zeros_like(self.key), weight)


class Scoring(ABC):
    """A rule's scores for a block of queries and keys, and the way back."""

    size: BlockSize

    def values_of_a_pair(self, sides: Sides) -> int:
        """Numbers that are held at once for a query and a key."""
        return 1

    @abstractmethod
    def scores(self, part: Sides) -> tuple[Tensor, Tensor | None]:
        """(b,h,i,j), and what the way back needs again of making them."""

    @abstractmethod
    def add_gradients(
        self, d_part: Sides, part: Sides, d_scores: Tensor, inner: Tensor | None
    ) -> None:
        """Add what a block's scores hand on; `inner` may be used up."""

    def factor(self, sides: Sides) -> Tensor | None:
        """What the gradients of both sides are multiplied by, once and not in every block."""
        return None


def softmax_in_blocks(scoring: Scoring, sides: Sides, v: Tensor, asked: Asked) -> Tensor:
    """(b,h,i,d); mask, bias and dropout are those that were asked for, in the type of `sides`."""
    bias = asked.bias
    if bias is not None:
        pairs = (sides.query.shape[-2], sides.key.shape[-2])
        bias = bias.expand(*bias.shape[:-2], *pairs).to(sides.query.dtype)
    # Drawn as the explicit path draws it, so that both drop the same weights.
    chances = Chances.of(asked)
    out: Tensor = _InBlocks.apply(  # type: ignore[no-untyped-call]
        *sides, v, bias, _Setting(scoring, chances, asked.mask, asked.grid)
    )
    return out


class _Setting(NamedTuple):
    """What no gradient is asked of."""

    scoring: Scoring
    chances: Chances | None
    mask: Mask
    grid: Grid

    def blocks(self, sides: Sides) -> Iterator[Block]:
        return blocks(
            (*sides.query.shape[:3], sides.key.shape[2]),
            mask=self.mask,
            grid=self.grid,
            size=self.scoring.size,
            inner=self.scoring.values_of_a_pair(sides),
        )

    def scores(
        self, sides: Sides, bias: Tensor | None, block: Block
    ) -> tuple[Tensor, Tensor | None]:
        """(b,h,i,j), −∞ where forbidden, and what the scoring's way back needs."""
        scores, inner = self.scoring.scores(sides.of(block))
        if bias is not None:
            scores += block.pairs(bias)
        return scores.add_(block.barred), inner

    def kept(self, block: Block, dtype: torch.dtype) -> Tensor | None:
        return None if self.chances is None else self.chances.kept(block, dtype=dtype)


class _InBlocks(Function):
    """softmax(scores + bias) v, never holding the scores of more than one block."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        weight: Tensor | None,
        v: Tensor,
        bias: Tensor | None,
        setting: _Setting,
    ) -> Tensor:
        sides = Sides(query, key, weight)
        out = v.new_zeros(*query.shape[:-1], v.shape[-1])
        totals = v.new_zeros(*query.shape[:-1], 1)
        for block in setting.blocks(sides):
            scores, _ = setting.scores(sides, bias, block)
            block_out, total = _mixed(scores, block.keys(v), setting.kept(block, v.dtype))
            block.queries(out).copy_(block_out)
            block.queries(totals).copy_(total)
        ctx.save_for_backward(*sides, v, bias, totals)
        ctx.setting = setting
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, v, bias, totals = ctx.saved_tensors
        setting, sides = ctx.setting, Sides(*tensors)
        d_sides, d_v = sides.zeros(), torch.zeros_like(v)
        # The bias may be one row seen as many, and its gradient has to be written.
        d_bias = bias.new_zeros(bias.shape) if ctx.needs_input_grad[4] else None
        for block in setting.blocks(sides):
            scores, inner = setting.scores(sides, bias, block)
            weights = scores.sub_(block.queries(totals)).exp_()
            kept = setting.kept(block, v.dtype)
            d_scores, block_d_v = _gradients(weights, block.queries(d_out), block.keys(v), kept)
            block.keys(d_v).add_(block_d_v)
            if d_bias is not None:
                d_block = block.pairs(d_bias)
                d_block.add_(d_scores.sum_to_size(d_block.shape))
            setting.scoring.add_gradients(d_sides.of(block), sides.of(block), d_scores, inner)
        if (factor := setting.scoring.factor(sides)) is not None:
            d_sides.query.mul_(factor)
            d_sides.key.mul_(factor)
        return (*d_sides, d_v, d_bias, None)


def _mixed(scores: Tensor, v: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor]:
    """Outputs (b,h,i,d) and the log of the sum that weights are divided by (b,h,i,1); `scores` are
    used up. A row with no allowed key gives zeros."""
    largest = scores.amax(dim=-1, keepdim=True).nan_to_num_(neginf=0.0)
    mass = scores.sub_(largest).exp_().sum(dim=-1, keepdim=True)
    if kept is not None:
        scores.mul_(kept)
    mass.masked_fill_(mass == 0, 1.0)
    return (scores @ v).div_(mass), mass.log().add_(largest)


def _gradients(
    weights: Tensor, d_out: Tensor, v: Tensor, kept: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Of the scores (b,h,i,j) and of the values (b,h,j,d)."""
    d_weights = d_out @ v.transpose(-2, -1)
    if kept is None:
        d_v = weights.transpose(-2, -1) @ d_out
    else:
        d_weights.mul_(kept)
        d_v = kept.mul_(weights).transpose(-2, -1) @ d_out
    d_scores = d_weights.mul_(weights)
    # What the softmax takes off each row is made of its own weights. Not d_out · out, which is the
    # same and rounds otherwise: where a query sees one key, nothing has to be left.
    return d_scores.addcmul_(weights, d_scores.sum(dim=-1, keepdim=True), value=-1), d_v
