"""The three products between places and the table of an output layer, a chunk of places at a time.

    scores = x Eᵀ        mixed = s E        gathered = Σ sᵀ x over all chunks

Scores are asked for first; something is made of them, and both others are taken of that. `ByTorch`
is the oracle of `ByOneDnn`. Shapes: n places, w model width, v vocabulary.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from regard.attention import onednn

ROWS_OF_A_KERNEL = 64
"Kernels take places by so many; others at the end of a chunk take longer."


class TableProducts(Protocol):
    def scores(self, x: Tensor) -> Tensor:
        """(n,w) -> (n,v), to be overwritten; those asked for before may be gone."""

    def mixed(self, s: Tensor) -> Tensor:
        """(n,v) -> (n,w)"""

    def gather(self, s: Tensor, x: Tensor) -> None:
        """(n,v), (n,w)"""

    def gathered(self) -> Tensor:
        """(v,w)"""


def table_products(x: Tensor, table: Tensor, *, rows: int) -> TableProducts:
    """For vectors like these, so many at a time."""
    by = ByOneDnn if onednn.takes(x, table) else ByTorch
    return by(table, rows=min(rows, len(x)))


def rows_at_once(vocabulary: int) -> int:
    """More scores fall out of the cache between two passes, fewer do not fill a product. From 32 MB
    on, memory that is made anew for each chunk is cleared by the system first."""
    scores = 7 * 2**20 if onednn.PAYS else 2**23
    return max(1, scores // vocabulary // ROWS_OF_A_KERNEL) * ROWS_OF_A_KERNEL


class ByTorch:
    def __init__(self, table: Tensor, *, rows: int) -> None:
        self._table = table
        self._scores = table.new_empty(rows, len(table))
        self._gathered: Tensor | None = None

    def scores(self, x: Tensor) -> Tensor:
        return torch.mm(x, self._table.T, out=self._scores[: len(x)])

    def mixed(self, s: Tensor) -> Tensor:
        return torch.mm(s, self._table)

    def gather(self, s: Tensor, x: Tensor) -> None:
        if self._gathered is None:
            self._gathered = torch.mm(s.T, x)
        else:
            self._gathered.addmm_(s.T, x)

    def gathered(self) -> Tensor:
        return torch.zeros_like(self._table) if self._gathered is None else self._gathered


class ByOneDnn:
    def __init__(self, table: Tensor, *, rows: int) -> None:
        self._table = table
        self._packed = onednn.packed(table, rows=rows)
        self._turned: Tensor | None = None
        "(w,v): what was gathered, turned, because scores are then read as they lie."

    def scores(self, x: Tensor) -> Tensor:
        return onednn.product(x, self._packed)

    def mixed(self, s: Tensor) -> Tensor:
        return onednn.product(s, self._table.T)

    def gather(self, s: Tensor, x: Tensor) -> None:
        part = onednn.product(x.T, s.T)
        self._turned = part if self._turned is None else self._turned.add_(part)

    def gathered(self) -> Tensor:
        turned = self._turned
        return torch.zeros_like(self._table) if turned is None else turned.T.contiguous()
