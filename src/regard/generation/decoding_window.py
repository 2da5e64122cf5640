"""The window a decoder writes in: tokens so far, which of them are real, and the model's cache.

Rows of different length stand flush right, with padding on the left that is not valid; a row's
positions count its own real tokens from 0. When the window is as long as the model's context, rows
that have filled it keep their last `context // 2` tokens and the cache is built anew in one pass.
Whether a row is cut depends on that row alone, never on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn


class DecodingCache(Protocol):
    """What a model remembers of the tokens it has seen, one row a sequence."""

    @property
    def length(self) -> int:
        """Tokens held for every row, padding included."""

    def reorder(self, rows: Tensor) -> None:
        """Row r becomes what row `rows[r]` was; there may be fewer rows afterwards, or more."""

    def clear(self) -> None:
        """Forget the tokens seen, but not what they are written from, where there is such."""


AnyCache = TypeVar("AnyCache", bound=DecodingCache)


class Decodable(Protocol[AnyCache]):
    """What generation needs of a model. Shapes: b rows, i new tokens."""

    @property
    def context(self) -> int:
        """The most positions it can see."""

    def new_cache(self, rows: int) -> AnyCache: ...

    def step(
        self, ids: Tensor, *, valid: Tensor | None, positions: Tensor, cache: AnyCache
    ) -> Tensor:
        """Logits (b, vocabulary) behind the last of `ids` (b, i), which join the cache.

        `valid` (b, cache.length + i) is True for real tokens and False for padding, None where all
        are real; `positions` (b or 1, i) are each row's own, from 0; padding has position 0."""


class DecodingWindow(Generic[AnyCache]):
    """Rows of tokens that grow at the right end, with the model's cache kept in step."""

    def __init__(self, model: Decodable[AnyCache], *, pad: int) -> None:
        self.model = model
        self.pad = pad
        self.device = device_of(model)
        self.cache: AnyCache | None = None
        self.length = 0
        "Columns of the window, padding included."
        self._read: list[Tensor] = []

    @property
    def ids(self) -> Tensor:
        """(b, t): the tokens so far, padding on the left."""
        if len(self._read) > 1:
            self._read = [torch.cat(self._read, dim=1)]
        return self._read[0]

    @property
    def valid(self) -> Tensor:
        """(b, t): which of them are real."""
        return self._real.narrow(1, 0, self.length)

    def open(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Read whole rows in one pass; logits (b, vocabulary) behind each."""
        context = self.model.context
        # A row that does not fit is cut to half the context, so that the next cut is far off.
        kept = [list(row[-max(1, context // 2) :] if len(row) > context else row) for row in rows]
        self.length = max(len(row) for row in kept)
        gaps = [self.length - len(row) for row in kept]
        ids = torch.tensor(
            [[self.pad] * gap + row for gap, row in zip(gaps, kept, strict=True)],
            device=self.device,
        )
        self._read = [ids]
        padding = torch.tensor(gaps, device=self.device)[:, None]
        self._padded = any(gaps)
        self._real = torch.arange(context, device=self.device) >= padding
        self._next = self.length - padding
        if self.cache is None:
            self.cache = self.model.new_cache(len(kept))
        else:
            self.cache.clear()
        column = torch.arange(self.length, device=self.device)
        return self._step(ids, (column - padding).clamp(min=0))

    def advance(self, ids: Tensor) -> Tensor:
        """Put one token (b,) behind each row; logits (b, vocabulary) behind that."""
        ids = ids.to(self.device)
        if self.length >= self.model.context:
            return self.open(
                [
                    [*row[real].tolist(), token]
                    for row, real, token in zip(self.ids, self.valid, ids.tolist(), strict=True)
                ]
            )
        new = ids[:, None]
        self._read.append(new)
        self.length += 1
        positions, self._next = self._next, self._next + 1
        return self._step(new, positions)

    def select(self, rows: Tensor) -> None:
        """Row r becomes what row `rows[r]` was: drops, doubles and reorders."""
        rows = rows.to(self.device)
        if torch.equal(rows, torch.arange(len(self._next), device=self.device)):
            return
        self._read = [self.ids[rows]]
        self._real, self._next = self._real[rows], self._next[rows]
        assert self.cache is not None
        self.cache.reorder(rows)

    def _step(self, ids: Tensor, positions: Tensor) -> Tensor:
        assert self.cache is not None
        # Most rows are alone or alike: what every step would find out is known beforehand.
        valid = self.valid if self._padded else None
        return self.model.step(ids, valid=valid, positions=positions, cache=self.cache)


def device_of(model: object) -> torch.device:
    """Where a module's parameters are; the CPU for a model that is no module or has none."""
    if isinstance(model, nn.Module):
        return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    return torch.device("cpu")
