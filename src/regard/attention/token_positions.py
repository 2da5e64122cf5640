"""Token positions: position ids, segment ids and modality ids of a batch.

The queries are always the last positions of a row; in decoding, those before them are in the cache.
Virtual tokens (an adapter's prompt or prefix) come before all others. Shapes: b batch, j position
in the row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.process.host import is_readable


@dataclass(frozen=True)
class TokenPositions:
    """Positions of whole rows, cached ones included."""

    ids: Tensor
    """(b or 1, j): position ids, counted from each row's first token. Padding on the left has
    position 0, on the right that of the row's last token."""
    segments: Tensor | None = None
    "(b, j): segment ids: which text of the row a token belongs to."
    modalities: Tensor | None = None
    "(b, j): modality ids: words, patches, …"
    in_order: bool = False
    "Position ids are 0, 1, 2, … in every row, and so equal the column index."
    limit: int | None = None
    "Every position id is below it; None: not known without reading them."
    tokens: TokenPositions | None = None
    "The positions without the virtual tokens in front, if there are any."

    @classmethod
    def of_row(
        cls,
        length: int,
        *,
        device: torch.device | None = None,
        segments: Tensor | None = None,
        modalities: Tensor | None = None,
    ) -> TokenPositions:
        """Unpadded rows: 0, 1, 2, …"""
        positions = torch.arange(length, device=device)[None]
        return cls(positions, segments, modalities, in_order=True, limit=length)

    @classmethod
    def of_padded(cls, valid: Tensor) -> TokenPositions:
        """Rows whose tokens are where `valid` (b, j) is True, counted from each row's first."""
        length = valid.shape[1]
        if is_readable(valid) and bool(valid.all()):
            return cls.of_row(length, device=valid.device)
        return cls((valid.cumsum(dim=1) - 1).clamp(min=0), limit=length)

    def with_virtual_tokens(
        self, count: int, *, first: int, unshifted: Tensor | None = None
    ) -> TokenPositions:
        """The same with `count` virtual tokens in front; tokens are counted from `first` on.

        Tokens where `unshifted` (b, j) is True keep their position ids."""
        if not count:
            return self
        virtual = torch.arange(count, device=self.ids.device).clamp(max=first)
        shifted = self.ids + first
        if unshifted is not None:
            shifted = torch.where(unshifted, self.ids, shifted)
        return TokenPositions(
            torch.cat((virtual.expand(len(shifted), -1), shifted), dim=1),
            in_order=self.in_order and first == count,
            limit=None if self.limit is None else self.limit + first,
            tokens=self,
        )

    def fits(self, length: int) -> bool:
        """Whether every position id is below `length`."""
        if self.limit is not None and self.limit <= length:
            return True
        return int(self.ids.max()) < length

    @property
    def virtual_tokens(self) -> int:
        """Number of virtual tokens before the tokens."""
        return 0 if self.tokens is None else self.ids.shape[1] - self.tokens.ids.shape[1]

    def last(self, count: int) -> Tensor:
        """Position ids of the last `count` positions, the queries: (b or 1, i)."""
        return self.ids[:, self.ids.shape[1] - count :]
