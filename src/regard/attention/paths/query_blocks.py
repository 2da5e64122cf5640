"""The pairs of queries and keys, cut into blocks of a few queries.

A block knows which keys its queries can reach, what is forbidden there, and what dropout keeps.
Shapes: b batch, h heads, i query, j key, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.function import AttentionInputs
from regard.attention.masks.mask import Grid, Mask
from regard.nn.dropout import keep_mask, keep_probability, random_draws


class BlockSize(NamedTuple):
    """How much of the pairs is taken at once."""

    values: int
    "Numbers that are held for a block, at most."
    queries: int
    "Queries in a block, at most: with more, a causal mask's blocks hold too much forbidden."


class QueryBlock(NamedTuple):
    """A few queries of a few rows of the batch, and the keys that they can reach."""

    batch: slice
    rows: slice
    columns: slice
    allowed: Tensor | None
    """(b or 1, h or 1, i, j'): of the last j' keys, 1 where they may be seen, else 0; those before
    may be seen by all, and where there is none, all may."""

    def queries(self, x: Tensor) -> Tensor:
        """Of (b,h,i,…); a view, so that what is added to it is added to the whole."""
        return x[self.batch, :, self.rows]

    def keys(self, x: Tensor) -> Tensor:
        return x[self.batch, :, self.columns]

    def pairs(self, x: Tensor) -> Tensor:
        """Of (b or 1, h, i, j)."""
        return _batch_part(x, self.batch)[..., self.rows, self.columns]

    def bar(self, scores: Tensor) -> Tensor:
        """Scores (b,h,i,j), changed to −∞ where forbidden."""
        if self.allowed is not None:
            scores[..., -self.allowed.shape[-1] :].add_(self.allowed.log())
        return scores

    def cleared(self, exponentials: Tensor) -> Tensor:
        """Those of scores (b,h,i,j), changed to 0 where forbidden; infinite ones become NaN."""
        if self.allowed is not None:
            exponentials[..., -self.allowed.shape[-1] :].mul_(self.allowed)
        return exponentials


class DropoutDraws(NamedTuple):
    """What dropout does to the weights: a draw for each, made once for both passes."""

    values: Tensor
    "(b,h,i,j) int16"
    p: float

    @classmethod
    def of(cls, asked: AttentionInputs) -> DropoutDraws | None:
        if not asked.dropout:
            return None
        return cls(random_draws((*asked.q.shape[:-1], asked.k.shape[-2])), asked.dropout)


class BlockedAttention(NamedTuple):
    """What was asked for beside queries, keys and values; no gradient goes there."""

    mask: Mask
    grid: Grid
    chances: DropoutDraws | None

    @classmethod
    def of(cls, asked: AttentionInputs) -> BlockedAttention:
        # Drawn as the explicit path draws it, so that both drop the same weights.
        return cls(asked.mask, asked.grid, DropoutDraws.of(asked))

    def blocks(
        self, shape: tuple[int, int, int, int], size: BlockSize, *, inner: int = 1
    ) -> Iterator[QueryBlock]:
        """All queries of all rows, (b,h,i,j) pairs with `inner` values each; a block whose band
        holds no key is left out."""
        return _blocks(shape, self.mask, self.grid, size, inner=inner)

    def keep_mask(self, block: QueryBlock, dtype: torch.dtype) -> Tensor | None:
        """(b,h,i,j): 1 where a weight is kept, else 0; what is kept has to be divided by the share
        kept. None where all are."""
        if self.chances is None:
            return None
        return keep_mask(block.pairs(self.chances.values), self.chances.p, dtype=dtype)

    @property
    def keep_probability(self) -> float:
        return 1.0 if self.chances is None else keep_probability(self.chances.p)


def bias_of_pairs(asked: AttentionInputs, dtype: torch.dtype) -> Tensor | None:
    """(b or 1,h,i,j), seen as whole."""
    if asked.bias is None:
        return None
    pairs = (asked.q.shape[-2], asked.k.shape[-2])
    return asked.bias.expand(*asked.bias.shape[:-2], *pairs).to(dtype)


def _blocks(
    shape: tuple[int, int, int, int], mask: Mask, grid: Grid, size: BlockSize, *, inner: int
) -> Iterator[QueryBlock]:
    b, h, queries, keys = shape
    for_one_query = max(1, h * keys * inner)
    count = max(1, min(size.queries, queries, size.values // for_one_query))
    batch_size = max(1, size.values // (count * for_one_query))
    for begin in range(0, queries, count):
        rows = slice(begin, min(begin + count, queries))
        columns, allowed = _seen(mask, grid, rows, keys=keys)
        if columns.start == columns.stop:
            continue
        for first in range(0, b, batch_size):
            batch = slice(first, min(first + batch_size, b))
            part = None if allowed is None else _batch_part(allowed, batch)
            yield QueryBlock(batch, rows, columns, part)


def _seen(mask: Mask, grid: Grid, rows: slice, *, keys: int) -> tuple[slice, Tensor | None]:
    """The keys that these queries can reach, and which of the last of them they may see."""
    if mask.is_everything:
        return slice(0, keys), None
    if mask.is_causal and grid.from_start:
        return slice(0, rows.stop), _triangle(rows.stop - rows.start, grid.i.device)
    columns = _reach(mask, grid.part(rows, slice(None)))
    # Asked about the whole batch: a mask may have been made for just that many rows.
    return columns, mask.on(grid.part(rows, columns)).float()


@lru_cache(maxsize=8)
def _triangle(positions: int, device: torch.device) -> Tensor:
    return torch.ones(1, 1, positions, positions, device=device).tril_()


def _batch_part(x: Tensor, batch: slice) -> Tensor:
    """The rows of a tensor that may have one row for all of the batch."""
    return x if x.shape[0] == 1 else x[batch]


def _reach(mask: Mask, part: Grid) -> slice:
    """The first to the last key that the mask's band lets any of these queries see."""
    band, reached = mask.structure.band, torch.ones_like(part.j, dtype=torch.bool)
    if band.back is not None:
        reached &= part.j >= part.i.min() - band.back
    if band.ahead is not None:
        reached &= part.j <= part.i.max() + band.ahead
    columns = reached.flatten(0, 2).any(dim=0).nonzero()
    return slice(int(columns[0]), int(columns[-1]) + 1) if len(columns) else slice(0, 0)
