"""Query blocks: the (query, key) pairs of an attention, a few queries at a time.

A block knows which keys its queries can reach, which of those are forbidden, and which weights
dropout keeps. Shapes: b batch, h heads, i query, j key, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.function import AttentionInputs
from regard.attention.masks.mask import Grid, Mask
from regard.nn.dropout import keep_mask, keep_probability, random_draws


class BlockSize(NamedTuple):
    """Maximum size of a block."""

    values: int
    "Maximum number of values per block."
    queries: int
    "Maximum number of queries per block: with more, causal blocks hold too many forbidden pairs."


class QueryBlock(NamedTuple):
    """A few queries of a few batch rows, and the keys that they can reach."""

    batch: slice
    rows: slice
    columns: slice
    allowed: Tensor | None
    """(b or 1, h or 1, i, j'): for the last j' keys, 1 where allowed, else 0; all earlier keys are
    allowed. None: all keys are."""

    def queries(self, x: Tensor) -> Tensor:
        """Of (b,h,i,…); a view, so that in-place additions reach the whole."""
        return x[self.batch, :, self.rows]

    def keys(self, x: Tensor) -> Tensor:
        """Of (b,h,j,…); a view."""
        return x[self.batch, :, self.columns]

    def pairs(self, x: Tensor) -> Tensor:
        """Of (b or 1, h, i, j); a view."""
        return _batch_slice(x, self.batch)[..., self.rows, self.columns]

    def mask_scores_(self, scores: Tensor) -> Tensor:
        """Sets forbidden scores (b,h,i,j) to −∞, in place."""
        if self.allowed is not None:
            scores[..., -self.allowed.shape[-1] :].add_(self.allowed.log())
        return scores

    def mask_exponentials_(self, exponentials: Tensor) -> Tensor:
        """Sets forbidden exponentials (b,h,i,j) to 0, in place; infinite ones become NaN."""
        if self.allowed is not None:
            exponentials[..., -self.allowed.shape[-1] :].mul_(self.allowed)
        return exponentials


class BlockedAttention(NamedTuple):
    """Mask and dropout of a blocked attention: everything that gets no gradient."""

    mask: Mask
    grid: Grid
    dropout: float = 0.0
    draws: Tensor | None = None
    "(b,h,i,j) int16: random draws of dropout, one per weight, shared by forward and backward."

    @classmethod
    def from_inputs(cls, inputs: AttentionInputs) -> BlockedAttention:
        # The draws are those of the explicit path, so that both drop the same weights.
        shape = (*inputs.q.shape[:-1], inputs.k.shape[-2])
        draws = random_draws(shape, inputs.q.device) if inputs.dropout else None
        return cls(inputs.mask, inputs.grid, inputs.dropout, draws)

    def blocks(
        self, shape: tuple[int, int, int, int], size: BlockSize, *, values_per_pair: int = 1
    ) -> Iterator[QueryBlock]:
        """Blocks of all (b,h,i,j) pairs, with `values_per_pair` values each; a block whose band
        holds no key is left out."""
        b, h, queries, keys = shape
        values_per_query = max(1, h * keys * values_per_pair)
        count = max(1, min(size.queries, queries, size.values // values_per_query))
        batch_size = max(1, size.values // (count * values_per_query))
        for begin in range(0, queries, count):
            rows = slice(begin, min(begin + count, queries))
            columns, allowed = _reachable_keys(self.mask, self.grid, rows, keys=keys)
            if columns.start == columns.stop:
                continue
            for first in range(0, b, batch_size):
                batch = slice(first, min(first + batch_size, b))
                batch_allowed = None if allowed is None else _batch_slice(allowed, batch)
                yield QueryBlock(batch, rows, columns, batch_allowed)

    def keep_mask(self, block: QueryBlock, dtype: torch.dtype) -> Tensor | None:
        """(b,h,i,j): 1 where a weight is kept, else 0; kept weights are still to be divided by the
        keep probability. None: all are kept."""
        if self.draws is None:
            return None
        return keep_mask(block.pairs(self.draws), self.dropout, dtype=dtype)

    @property
    def keep_probability(self) -> float:
        return keep_probability(self.dropout)


def expand_bias(inputs: AttentionInputs, dtype: torch.dtype) -> Tensor | None:
    """The bias, expanded to (b or 1,h,i,j)."""
    if inputs.bias is None:
        return None
    pairs = (inputs.q.shape[-2], inputs.k.shape[-2])
    return inputs.bias.expand(*inputs.bias.shape[:-2], *pairs).to(dtype)


def _reachable_keys(
    mask: Mask, grid: Grid, rows: slice, *, keys: int
) -> tuple[slice, Tensor | None]:
    """The keys that these queries can reach, and `allowed` of `QueryBlock`."""
    if mask.is_everything:
        return slice(0, keys), None
    if mask.is_causal and grid.from_start:
        return slice(0, rows.stop), _lower_triangle(rows.stop - rows.start, grid.i.device)
    columns = _band_columns(mask, grid.crop(rows, slice(None)))
    # For the whole batch: the mask's tables may have exactly that many rows.
    return columns, mask.materialize(grid.crop(rows, columns)).float()


def _lower_triangle(length: int, device: torch.device) -> Tensor:
    # Not kept for the next call: that one may have gradients where this one is in inference mode,
    # or values where this one's tensors are fake.
    return torch.ones(1, 1, length, length, device=device).tril_()


def _batch_slice(x: Tensor, batch: slice) -> Tensor:
    """These rows of a tensor, which may have one row for the whole batch."""
    return x if x.shape[0] == 1 else x[batch]


def _band_columns(mask: Mask, grid: Grid) -> slice:
    """From the first to the last key that the mask's band lets any of these queries reach."""
    band, queries, keys = mask.structure.band, grid.queries, grid.keys
    if queries is None or keys is None:
        return slice(0, grid.j.shape[-1])
    begin, end = keys.start, keys.stop
    if band.left is not None:
        begin = max(begin, queries.start - band.left)
    if band.right is not None:
        end = min(end, queries.stop + band.right)
    return slice(begin - keys.start, end - keys.start) if begin < end else slice(0, 0)
