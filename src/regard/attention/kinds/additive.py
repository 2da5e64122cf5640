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
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention.kinds import AttentionKind, kind
from regard.attention.mask import Grid, Mask
from regard.attention.rule import Asked, Fast, HeadShape, Rule

INNER_VALUES = 2**19
"Inner values that the fast path holds at once: 2 MB in float32, about what stays in a cache."
QUERIES = 16
"Queries in a block, at most: with more, blocks of a causal mask hold too much that is forbidden."


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
                F.dropout(v.new_ones(*q.shape[:2], *pairs, dtype=dtype), p=asked.dropout)
                if asked.dropout
                else None,
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
    kept: Tensor | None
    "(b,h,i,j): 0 where dropout takes a weight, 1/(1−p) where it leaves it; without gradient."

    def inner(self) -> Tensor:
        """tanh(W_q q + W_k k + b), (b,h,i,j,m)"""
        return (self.from_query[:, :, :, None] + self.from_key[:, :, None]).tanh_()

    def scores(self, inner: Tensor, forbidden: Tensor) -> Tensor:
        """(b,h,i,j), −∞ where forbidden"""
        # One product of a matrix and a vector for each head; torch would make one for each query.
        scores = (inner.flatten(2, 3) @ self.out_weight[:, :, None]).view(inner.shape[:-1])
        if self.bias is not None:
            scores = scores + self.bias
        return scores.masked_fill(forbidden, -torch.inf)

    def dropped(self, weights: Tensor) -> Tensor:
        return weights if self.kept is None else weights * self.kept


class _Block(NamedTuple):
    """A few queries of a few rows of the batch, and the keys that they can reach."""

    batch: slice
    rows: slice
    columns: slice
    forbidden: Tensor

    def of(self, whole: _Parts) -> _Parts:
        """Views, so that what is added to them is added to the whole."""
        return _Parts(
            self.of_queries(whole.from_query),
            whole.from_key[self.batch, :, self.columns],
            whole.out_weight,
            whole.v[self.batch, :, self.columns],
            self._of_pairs(whole.bias),
            self._of_pairs(whole.kept),
        )

    def of_queries(self, x: Tensor) -> Tensor:
        return x[self.batch, :, self.rows]

    def _of_pairs(self, x: Tensor | None) -> Tensor | None:
        return None if x is None else _batch_part(x, self.batch)[..., self.rows, self.columns]


class _InBlocks(Function):
    """softmax(w · tanh(…) + bias) v, never holding the inner values of more than one block."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        given, (mask, grid) = _Parts(*arguments[:-1]), arguments[-1]
        b, h, i, _ = given.from_query.shape
        out = given.v.new_zeros(b, h, i, given.v.shape[-1])
        totals = given.v.new_zeros(b, h, i, 1)
        for block in _blocks(given, mask, grid):
            part = block.of(given)
            scores = part.scores(part.inner(), block.forbidden)
            total = scores.logsumexp(dim=-1, keepdim=True)
            # A row with no allowed key: its weights are exp(−∞ − 0) = 0, not exp(−∞ + ∞).
            total = total.masked_fill(total == -torch.inf, 0.0)
            block.of_queries(out).copy_(part.dropped((scores - total).exp_()) @ part.v)
            block.of_queries(totals).copy_(total)
        ctx.save_for_backward(*given, totals)
        ctx.asked = (mask, grid)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, totals = ctx.saved_tensors
        given = _Parts(*tensors)
        bias = given.bias if ctx.needs_input_grad[4] else None
        gradients = _Parts(
            torch.zeros_like(given.from_query),
            torch.zeros_like(given.from_key),
            torch.zeros_like(given.out_weight),
            torch.zeros_like(given.v),
            # The bias may be one row seen as many, and its gradient has to be written.
            None if bias is None else bias.new_zeros(bias.shape),
            None,
        )
        for block in _blocks(given, *ctx.asked):
            part, d_part, d_block = block.of(given), block.of(gradients), block.of_queries(d_out)
            inner = part.inner()
            weights = part.scores(inner, block.forbidden).sub_(block.of_queries(totals)).exp_()
            d_part.v.add_(part.dropped(weights).transpose(-2, -1) @ d_block)
            d_weights = part.dropped(d_block @ part.v.transpose(-2, -1))
            # What the softmax takes off each row, dropout included. Not d_out · out, which is the
            # same and rounds otherwise: where a query sees one key, nothing has to be left.
            taken = (weights * d_weights).sum(dim=-1, keepdim=True)
            d_scores = d_weights.sub_(taken).mul_(weights)
            _add_gradients(d_part, inner, d_scores)
        # w is a constant factor of both sums, so it stays outside of the loop.
        gradients.from_query.mul_(given.out_weight[:, None])
        gradients.from_key.mul_(given.out_weight[:, None])
        return (*gradients, None)


def _add_gradients(d_part: _Parts, inner: Tensor, d_scores: Tensor) -> None:
    """Add what a block's scores hand on; `inner` is used up, its memory serves the gradient."""
    if d_part.bias is not None:
        d_part.bias.add_(d_scores.sum_to_size(d_part.bias.shape))
    d_out_weight = d_scores.flatten(2)[:, :, None] @ inner.flatten(2, 3)
    d_part.out_weight.add_(d_out_weight.squeeze(2).sum(dim=0))
    slope = inner.square_().neg_().add_(1.0).mul_(d_scores[..., None])
    d_part.from_query.add_(slope.sum(dim=3))
    d_part.from_key.add_(slope.sum(dim=2))


def _blocks(given: _Parts, mask: Mask, grid: Grid) -> Iterator[_Block]:
    """All queries of all rows, in blocks; one whose band holds no key is left out."""
    b, h, queries, m = given.from_query.shape
    for_one_query = max(1, h * given.from_key.shape[2] * m)
    size = max(1, min(QUERIES, queries, INNER_VALUES // for_one_query))
    batch_size = max(1, INNER_VALUES // (size * for_one_query))
    for begin in range(0, queries, size):
        rows = slice(begin, begin + size)
        columns = _reach(mask, grid.part(rows, slice(None)))
        if columns.start == columns.stop:
            continue
        # Asked about the whole batch: a mask may have been made for just that many rows.
        forbidden = ~mask.on(grid.part(rows, columns))
        for first in range(0, b, batch_size):
            batch = slice(first, first + batch_size)
            yield _Block(batch, rows, columns, _batch_part(forbidden, batch))


def _batch_part(x: Tensor, batch: slice) -> Tensor:
    """The rows of a tensor that may have one row for all of the batch."""
    return x if x.shape[0] == 1 else x[batch]


def _reach(mask: Mask, part: Grid) -> slice:
    """The first to the last key that the mask's band lets any of these queries see."""
    band, reached = mask.known.band, torch.ones_like(part.j, dtype=torch.bool)
    if band.back is not None:
        reached &= part.j >= part.i.min() - band.back
    if band.ahead is not None:
        reached &= part.j <= part.i.max() + band.ahead
    columns = reached.flatten(0, 2).any(dim=0).nonzero()
    return slice(int(columns[0]), int(columns[-1]) + 1) if len(columns) else slice(0, 0)
