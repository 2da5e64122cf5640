"""Where tokens stand: what positions and groups are computed from.

Shapes: b batch, j place of the row. The queries are always the last places of a row; those before
them, when decoding, are remembered in the cache. Virtual places, which hold no token, may stand
before all others: an adapter's prompt or prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenPositions:
    """The places of whole rows, cached ones included."""

    ids: Tensor
    """(b or 1, j): each row's own count of tokens from 0; padding has position 0 on the left, on
    the right that of the row's last token."""
    segments: Tensor | None = None
    "(b, j): which text of the row a place belongs to."
    modalities: Tensor | None = None
    "(b, j): words, patches, … by number."
    in_order: bool = False
    "Positions are 0, 1, 2, … in every row, so they are places of the row as well."
    tokens: TokenPositions | None = None
    "The places of the tokens as they are without the virtual ones before them, if there are any."

    @classmethod
    def of_row(
        cls,
        length: int,
        *,
        device: torch.device | None = None,
        segments: Tensor | None = None,
        modalities: Tensor | None = None,
    ) -> TokenPositions:
        """The plain case: 0, 1, 2, …"""
        positions = torch.arange(length, device=device)[None]
        return cls(positions, segments, modalities, in_order=True)

    @classmethod
    def of_padded(cls, valid: Tensor) -> TokenPositions:
        """Rows whose tokens are where `valid` (b, j) is True, counted from each row's first."""
        if bool(valid.all()):
            return cls.of_row(valid.shape[1], device=valid.device)
        return cls((valid.cumsum(dim=1) - 1).clamp(min=0))

    def behind(self, virtual: int, *, first: int, still: Tensor | None = None) -> TokenPositions:
        """The same with `virtual` places in front; `first` is where tokens are counted from.

        Tokens at which `still` (b, j) is True keep their positions."""
        if not virtual:
            return self
        front = torch.arange(virtual, device=self.ids.device).clamp(max=first)
        moved = self.ids + first
        if still is not None:
            moved = torch.where(still, self.ids, moved)
        return TokenPositions(
            torch.cat((front.expand(len(moved), -1), moved), dim=1),
            in_order=self.in_order and first == virtual,
            tokens=self,
        )

    @property
    def virtual(self) -> int:
        """How many places stand before the tokens."""
        return 0 if self.tokens is None else self.ids.shape[1] - self.tokens.ids.shape[1]

    def last(self, count: int) -> Tensor:
        """Positions of the queries, (b or 1, i)."""
        return self.ids[:, self.ids.shape[1] - count :]
