"""The pairs of queries and keys, cut into blocks of a few queries.

A block knows which keys its queries can reach, what is forbidden there, and what dropout keeps.
Shapes: b batch, h heads, i query, j key, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.chance import draws, kept, share_kept
from regard.attention.mask import Grid, Mask
from regard.attention.rule import Asked


class BlockSize(NamedTuple):
    """How much of the pairs is taken at once."""

    values: int
    "Numbers that are held for a block, at most."
    queries: int
    "Queries in a block, at most: with more, a causal mask's blocks hold too much forbidden."


class Block(NamedTuple):
    """A few queries of a few rows of the batch, and the keys that they can reach."""

    batch: slice
    rows: slice
    columns: slice
    barred: Tensor
    "(b or 1, h or 1, i, j): added to the scores; −∞ where forbidden, else 0."

    def queries(self, x: Tensor) -> Tensor:
        """Of (b,h,i,…); a view, so that what is added to it is added to the whole."""
        return x[self.batch, :, self.rows]

    def keys(self, x: Tensor) -> Tensor:
        return x[self.batch, :, self.columns]

    def pairs(self, x: Tensor) -> Tensor:
        """Of (b or 1, h, i, j)."""
        return _batch_part(x, self.batch)[..., self.rows, self.columns]


class Chances(NamedTuple):
    """What dropout does to the weights: a draw for each, made once for both passes."""

    draws: Tensor
    "(b,h,i,j) int16"
    p: float

    @classmethod
    def of(cls, asked: Asked) -> Chances | None:
        if not asked.dropout:
            return None
        return cls(draws((*asked.q.shape[:-1], asked.k.shape[-2])), asked.dropout)

    def kept(self, block: Block, *, dtype: torch.dtype) -> Tensor:
        """1/(1 − p) where a weight is kept, else 0."""
        return kept(block.pairs(self.draws), self.p, dtype=dtype).mul_(1 / share_kept(self.p))


def blocks(
    shape: tuple[int, int, int, int], *, mask: Mask, grid: Grid, size: BlockSize, inner: int = 1
) -> Iterator[Block]:
    """All queries of all rows, (b,h,i,j) pairs with `inner` values each; a block whose band holds
    no key is left out."""
    b, h, queries, keys = shape
    for_one_query = max(1, h * keys * inner)
    count = max(1, min(size.queries, queries, size.values // for_one_query))
    batch_size = max(1, size.values // (count * for_one_query))
    for begin in range(0, queries, count):
        rows = slice(begin, begin + count)
        columns = _reach(mask, grid.part(rows, slice(None)))
        if columns.start == columns.stop:
            continue
        # Asked about the whole batch: a mask may have been made for just that many rows.
        barred = _barred(mask.on(grid.part(rows, columns)))
        for first in range(0, b, batch_size):
            batch = slice(first, first + batch_size)
            yield Block(batch, rows, columns, _batch_part(barred, batch))


def _barred(allowed: Tensor) -> Tensor:
    barred = torch.zeros(allowed.shape, device=allowed.device)
    return barred.masked_fill_(~allowed, -torch.inf)


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
