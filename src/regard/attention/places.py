"""Where tokens stand: what positions and groups are computed from.

Shapes: b batch, j place of the row. The queries are always the last places of a row; those before
them, when decoding, are remembered in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Places:
    """The places of whole rows, cached ones included."""

    positions: Tensor
    """(b or 1, j): each row's own count of tokens from 0; padding has position 0 on the left, on
    the right that of the row's last token."""
    segments: Tensor | None = None
    "(b, j): which text of the row a place belongs to."
    modalities: Tensor | None = None
    "(b, j): words, patches, … by number."
    in_order: bool = False
    "Positions are 0, 1, 2, … in every row, so they are places of the row as well."

    @classmethod
    def of_row(
        cls,
        length: int,
        *,
        device: torch.device | None = None,
        segments: Tensor | None = None,
        modalities: Tensor | None = None,
    ) -> Places:
        """The plain case: 0, 1, 2, …"""
        positions = torch.arange(length, device=device)[None]
        return cls(positions, segments, modalities, in_order=True)

    @classmethod
    def of_padded(cls, valid: Tensor) -> Places:
        """Rows whose tokens are where `valid` (b, j) is True, counted from each row's first."""
        return cls((valid.cumsum(dim=1) - 1).clamp(min=0), in_order=bool(valid.all()))

    def last(self, count: int) -> Tensor:
        """Positions of the queries, (b or 1, i)."""
        return self.positions[:, self.positions.shape[1] - count :]
