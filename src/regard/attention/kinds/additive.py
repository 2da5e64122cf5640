"""Additive attention: a small network scores each query against each key.

    score(q, k) = w · tanh(W_q q + W_k k + b)              Bahdanau, Cho and Bengio, 2015

Each head has its own network. Written out, the network's inner values are (b,h,i,j,m): m times the
memory of dot-product attention. The fast path therefore goes through a few queries at a time, over
the keys that the mask's band can reach, and computes the inner values anew in the backward pass.

Shapes: b batch, h heads, i query, j key, d head width, m width of the scoring network. Masks:
True = may attend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention.kinds import AttentionKind, kind
from regard.attention.mask import Grid, Mask
from regard.attention.query_blocks import Block, BlockSize, Chances, blocks, gradients, mixed
from regard.attention.rule import Asked, Fast, HeadShape, Rule

SIZE = BlockSize(values=2**19, queries=16)
"Of inner values 2 MB in float32, about what stays in a cache."


@kind("additive", cost="n² · d", relations=("bias",))
class Additive(AttentionKind):
    """A small tanh network scores each query against each key."""

    hidden: int = Field(default=0, ge=0)
    "Width of the scoring network; 0 takes the head's width."

    def build(self, shape: HeadShape) -> Rule:
        return AdditiveScore(shape, hidden=self.hidden or shape.width)

    def own_parameters(self, shape: HeadShape) -> int:
        """For each head and inner unit: a column of W_q, one of W_k, one number of w, one of b."""
        units = shape.heads * (self.hidden or shape.width)
        return units * (2 * shape.width + 1 + shape.biases)


class AdditiveScore(Rule):
    def __init__(self, shape: HeadShape, *, hidden: int) -> None:
        super().__init__()
        h, d = shape.heads, shape.width
        # Wider than a model's usual draw, and the bias not from 0: around 0 tanh is a line, and a
        # line has no term in which query and key meet; learning where to look then starts late.
        self.starting_deviation = d**-0.5
        self.query_weight = nn.Parameter(torch.randn(h, d, hidden) * self.starting_deviation)
        self.key_weight = nn.Parameter(torch.randn(h, d, hidden) * self.starting_deviation)
        self.out_weight = nn.Parameter(torch.randn(h, hidden) * self.starting_deviation)
        bias = torch.randn(h, hidden) * self.starting_deviation
        self.bias = nn.Parameter(bias) if shape.biases else None

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j); the oracle"""
        from_query, from_key = self._halves(q, k)
        inner = torch.tanh(from_query[:, :, :, None] + from_key[:, :, None])
        return (inner @ self.out_weight[:, None, :, None]).squeeze(-1)

    def fast(self, asked: Asked) -> Fast:
        q, k, v, bias = asked.q, asked.k, asked.v, asked.bias
        from_query, from_key = self._halves(q, k)
        pairs = (q.shape[-2], k.shape[-2])
        # Under autocast the halves may be wider than the values: one type for all, then back.
        tensors = [from_query, from_key, self.out_weight, v]
        dtype = torch.promote_types(from_query.dtype, from_key.dtype)
        with torch.autocast(q.device.type, enabled=False):
            out = _InBlocks.apply(  # type: ignore[no-untyped-call]
                *(tensor.to(dtype) for tensor in tensors),
                None if bias is None else bias.expand(*bias.shape[:-2], *pairs).to(dtype),
                # Drawn as the explicit path draws it, so that both drop the same weights.
                Chances.of(asked),
                (asked.mask, asked.grid),
            )
        return Fast(out.to(v.dtype), "query-blocks")

    def _halves(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """What query and key bring into the tanh, (b,h,i,m) and (b,h,j,m)."""
        from_key = k @ self.key_weight
        if self.bias is not None:
            from_key = from_key + self.bias[:, None]
        return q @ self.query_weight, from_key


class _Parts(NamedTuple):
    """What weights and output are made of, whole or a block of it; or the gradients of these."""

    from_query: Tensor
    from_key: Tensor
    out_weight: Tensor
    v: Tensor
    bias: Tensor | None

    def of(self, block: Block) -> _Parts:
        """Views, so that what is added to them is added to the whole."""
        return _Parts(
            block.queries(self.from_query),
            block.keys(self.from_key),
            self.out_weight,
            block.keys(self.v),
            None if self.bias is None else block.pairs(self.bias),
        )

    def inner(self) -> Tensor:
        """tanh(W_q q + W_k k + b), (b,h,i,j,m)"""
        return (self.from_query[:, :, :, None] + self.from_key[:, :, None]).tanh_()

    def scores(self, inner: Tensor, barred: Tensor) -> Tensor:
        """(b,h,i,j), −∞ where forbidden"""
        # One product of a matrix and a vector for each head; torch would make one for each query.
        scores = (inner.flatten(2, 3) @ self.out_weight[:, :, None]).view(inner.shape[:-1])
        if self.bias is not None:
            scores = scores + self.bias
        return scores.add_(barred)


class _InBlocks(Function):
    """softmax(w · tanh(…) + bias) v, never holding the inner values of more than one block."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        given, chances, (mask, grid) = _Parts(*arguments[:-2]), *arguments[-2:]
        out = given.v.new_zeros(*given.from_query.shape[:-1], given.v.shape[-1])
        totals = given.v.new_zeros(*given.from_query.shape[:-1], 1)
        for block in _blocks(given, mask, grid):
            part = given.of(block)
            scores = part.scores(part.inner(), block.barred)
            kept = None if chances is None else chances.kept(block, dtype=scores.dtype)
            block_out, total = mixed(scores, part.v, kept)
            block.queries(out).copy_(block_out)
            block.queries(totals).copy_(total)
        ctx.save_for_backward(*given, totals)
        ctx.asked, ctx.chances = (mask, grid), chances
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, totals = ctx.saved_tensors
        given = _Parts(*tensors)
        bias = given.bias if ctx.needs_input_grad[4] else None
        whole = _Parts(
            torch.zeros_like(given.from_query),
            torch.zeros_like(given.from_key),
            torch.zeros_like(given.out_weight),
            torch.zeros_like(given.v),
            # The bias may be one row seen as many, and its gradient has to be written.
            None if bias is None else bias.new_zeros(bias.shape),
        )
        for block in _blocks(given, *ctx.asked):
            part, d_part = given.of(block), whole.of(block)
            inner = part.inner()
            weights = part.scores(inner, block.barred).sub_(block.queries(totals)).exp_()
            kept = None if ctx.chances is None else ctx.chances.kept(block, dtype=weights.dtype)
            d_scores, d_v = gradients(weights, block.queries(d_out), part.v, kept)
            d_part.v.add_(d_v)
            _add_gradients(d_part, inner, d_scores)
        # w is a constant factor of both sums, so it stays outside of the loop.
        whole.from_query.mul_(given.out_weight[:, None])
        whole.from_key.mul_(given.out_weight[:, None])
        return (*whole, None, None)


def _add_gradients(d_part: _Parts, inner: Tensor, d_scores: Tensor) -> None:
    """Add what a block's scores hand on; `inner` is used up, its memory serves the gradient."""
    if d_part.bias is not None:
        d_part.bias.add_(d_scores.sum_to_size(d_part.bias.shape))
    d_out_weight = d_scores.flatten(2)[:, :, None] @ inner.flatten(2, 3)
    d_part.out_weight.add_(d_out_weight.squeeze(2).sum(dim=0))
    slope = inner.square_().neg_().add_(1.0).mul_(d_scores[..., None])
    d_part.from_query.add_(slope.sum(dim=3))
    d_part.from_key.add_(slope.sum(dim=2))


def _blocks(given: _Parts, mask: Mask, grid: Grid) -> Iterator[Block]:
    pairs = (*given.from_query.shape[:3], given.from_key.shape[2])
    return blocks(pairs, mask=mask, grid=grid, size=SIZE, inner=given.from_query.shape[-1])
