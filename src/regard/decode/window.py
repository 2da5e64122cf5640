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


class Cache(Protocol):
    """What a model remembers of the tokens it has seen, one row a sequence."""

    @property
    def length(self) -> int:
        """Tokens held for every row, padding included."""

    def reorder(self, rows: Tensor) -> None:
        """Row r becomes what row `rows[r]` was; there may be fewer rows afterwards, or more."""

    def clear(self) -> None:
        """Forget the tokens seen, but not what they are written from, where there is such."""


AnyCache = TypeVar("AnyCache", bound=Cache)


class Decodable(Protocol[AnyCache]):
    """What generation needs of a model. Shapes: b rows, i new tokens."""

    @property
    def context(self) -> int:
        """The most positions it can see."""

    def new_cache(self, rows: int) -> AnyCache: ...

    def step(self, ids: Tensor, *, valid: Tensor, positions: Tensor, cache: AnyCache) -> Tensor:
        """Logits (b, vocabulary) behind the last of `ids` (b, i), which join the cache.

        `valid` (b, cache.length + i) is True for real tokens and False for padding; `positions`
        (b, i) are each row's own, from 0; padding has position 0."""


class Window(Generic[AnyCache]):
    """Rows of tokens that grow at the right end, with the model's cache kept in step."""

    def __init__(self, model: Decodable[AnyCache], *, pad: int) -> None:
        self.model = model
        self.pad = pad
        self.device = device_of(model)
        self.cache: AnyCache | None = None

    def open(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Read whole rows in one pass; logits (b, vocabulary) behind each."""
        context = self.model.context
        # A row that does not fit is cut to half the context, so that the next cut is far off.
        kept = [list(row[-max(1, context // 2) :] if len(row) > context else row) for row in rows]
        longest = max(len(row) for row in kept)
        padding = [longest - len(row) for row in kept]
        self.ids = torch.tensor(
            [[self.pad] * gap + row for gap, row in zip(padding, kept, strict=True)],
            device=self.device,
        )
        column = torch.arange(longest, device=self.device)
        self.valid = column >= torch.tensor(padding, device=self.device)[:, None]
        if self.cache is None:
            self.cache = self.model.new_cache(len(kept))
        else:
            self.cache.clear()
        positions = (self.valid.cumsum(dim=1) - 1).clamp(min=0)
        return self.model.step(self.ids, valid=self.valid, positions=positions, cache=self.cache)

    def advance(self, ids: Tensor) -> Tensor:
        """Put one token (b,) behind each row; logits (b, vocabulary) behind that."""
        ids = ids.to(self.device)
        if self.ids.shape[1] >= self.model.context:
            return self.open(
                [
                    [*row[real].tolist(), token]
                    for row, real, token in zip(self.ids, self.valid, ids.tolist(), strict=True)
                ]
            )
        assert self.cache is not None
        positions = self.valid.sum(dim=1, keepdim=True)
        self.ids = torch.cat([self.ids, ids[:, None]], dim=1)
        self.valid = torch.cat([self.valid, torch.ones_like(self.valid[:, :1])], dim=1)
        return self.model.step(
            ids[:, None], valid=self.valid, positions=positions, cache=self.cache
        )

    def select(self, rows: Tensor) -> None:
        """Row r becomes what row `rows[r]` was: drops, doubles and reorders."""
        rows = rows.to(self.device)
        self.ids = self.ids[rows]
        self.valid = self.valid[rows]
        assert self.cache is not None
        self.cache.reorder(rows)


def device_of(model: object) -> torch.device:
    """Where a module's parameters are; the CPU for a model that is no module or has none."""
    if isinstance(model, nn.Module):
        return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    return torch.device("cpu")
