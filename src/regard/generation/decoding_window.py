"""The sliding context window of decoding: token ids, which of them are padding, the KV cache.

Rows of different length are padded on the left; a row's positions count its own tokens from 0.
When the window has reached the model's context length, rows that fill it keep their last
`context // 2` tokens and the cache is rebuilt in one pass. Whether a row is cut depends on that row
alone, never on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn


class DecodingCache(Protocol):
    """The model's cache of past tokens, one row per sequence."""

    @property
    def length(self) -> int:
        """Tokens held for every row, padding included."""

    def reorder(self, rows: Tensor) -> None:
        """Row r becomes what row `rows[r]` was; the number of rows may change."""

    def clear(self) -> None:
        """Drop the past tokens, but not the source sequence of a seq2seq model."""


AnyCache = TypeVar("AnyCache", bound=DecodingCache)


class Decodable(Protocol[AnyCache]):
    """What generation needs of a model. Shapes: b rows, i new tokens."""

    @property
    def context(self) -> int:
        """Maximum sequence length."""

    def new_cache(self, rows: int) -> AnyCache: ...

    def step(
        self, ids: Tensor, *, valid: Tensor | None, positions: Tensor, cache: AnyCache
    ) -> Tensor:
        """Logits (b, vocabulary) after the last of `ids` (b, i), which are added to the cache.

        `valid` (b, cache.length + i) is True at tokens and False at padding, None if all are
        tokens; `positions` (b or 1, i) count each row's tokens from 0; padding has position 0."""


class DecodingWindow(Generic[AnyCache]):
    """Token rows that grow on the right, in step with the model's cache."""

    def __init__(self, model: Decodable[AnyCache], *, pad: int) -> None:
        self.model = model
        self.pad = pad
        self.device = model_device(model)
        self.cache: AnyCache | None = None
        self.length = 0
        "Columns of the window, padding included."
        self._id_columns: list[Tensor] = []

    @property
    def ids(self) -> Tensor:
        """(b, t): the tokens so far, padding on the left."""
        if len(self._id_columns) > 1:
            self._id_columns = [torch.cat(self._id_columns, dim=1)]
        return self._id_columns[0]

    @property
    def valid(self) -> Tensor:
        """(b, t): True at tokens, False at padding."""
        return self._valid.narrow(1, 0, self.length)

    def prefill(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Process whole rows in one pass; logits (b, vocabulary) after each."""
        context = self.model.context
        # A row that does not fit is cut to half the context, so that the next cut is far off.
        kept = [list(row[-max(1, context // 2) :] if len(row) > context else row) for row in rows]
        self.length = max(len(row) for row in kept)
        gaps = [self.length - len(row) for row in kept]
        ids = torch.tensor(
            [[self.pad] * gap + row for gap, row in zip(gaps, kept, strict=True)],
            device=self.device,
        )
        self._id_columns = [ids]
        padding = torch.tensor(gaps, device=self.device)[:, None]
        self._has_padding = any(gaps)
        self._valid = torch.arange(context, device=self.device) >= padding
        self._next_positions = self.length - padding
        if self.cache is None:
            self.cache = self.model.new_cache(len(kept))
        else:
            self.cache.clear()
        column = torch.arange(self.length, device=self.device)
        return self._step(ids, (column - padding).clamp(min=0))

    def advance(self, ids: Tensor) -> Tensor:
        """Append one token (b,) to each row; logits (b, vocabulary) after it."""
        ids = ids.to(self.device)
        if self.length >= self.model.context:
            return self.prefill(
                [
                    [*row[valid].tolist(), token]
                    for row, valid, token in zip(self.ids, self.valid, ids.tolist(), strict=True)
                ]
            )
        new = ids[:, None]
        self._id_columns.append(new)
        self.length += 1
        positions, self._next_positions = self._next_positions, self._next_positions + 1
        return self._step(new, positions)

    def select(self, rows: Tensor) -> None:
        """Row r becomes what row `rows[r]` was: drops, duplicates and reorders rows."""
        rows = rows.to(self.device)
        if torch.equal(rows, torch.arange(len(self._next_positions), device=self.device)):
            return
        self._id_columns = [self.ids[rows]]
        self._valid, self._next_positions = self._valid[rows], self._next_positions[rows]
        assert self.cache is not None
        self.cache.reorder(rows)

    def _step(self, ids: Tensor, positions: Tensor) -> Tensor:
        assert self.cache is not None
        # Most batches have no padding: None saves each step the check.
        valid = self.valid if self._has_padding else None
        return self.model.step(ids, valid=valid, positions=positions, cache=self.cache)


def model_device(model: object) -> torch.device:
    """The device of a module's parameters; the CPU for anything without parameters."""
    if isinstance(model, nn.Module):
        return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    return torch.device("cpu")
