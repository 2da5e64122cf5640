"""Masked language modelling: some tokens are hidden; tell what stood there from both sides.

    loss = −Σ_{t hidden} log p(x_t | the row with hidden places)          Devlin et al., 2019

Of the chosen places most become [MASK], some a random token, some stay: the model cannot know
which of the tokens it sees are true. Labels are the original tokens; only chosen places count, and
the position signal of a hidden place is kept.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from regard.errors import UserError
from regard.objectives import OBJECTIVES, Objective, Scored, Vocabulary
from regard.text.batches import Example, Ints
from regard.text.rows import Document


@OBJECTIVES.add("masked", families=("encoder",))
class Masked(Objective):
    """Tell hidden tokens from what stands on both sides of them."""

    share: float = Field(default=0.15, gt=0.0, lt=1.0)
    "Share of a row's tokens that are chosen; at least one is."
    as_mask: float = Field(default=0.8, ge=0.0, le=1.0)
    "Share of the chosen that become [MASK]."
    as_random: float = Field(default=0.1, ge=0.0, le=1.0)
    "Share of the chosen that become a random token; the rest stay as they are."

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.as_mask + self.as_random > 1:
            raise ValueError(
                f"as_mask = {self.as_mask} and as_random = {self.as_random} are more than all"
            )
        return self

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        # A row has one token more than the context, which the next row begins with.
        segments = document.segments
        return self._hidden(
            document.ids[:-1],
            generator,
            vocabulary=vocabulary,
            segments=None if segments is None else segments[:-1],
        )

    def scored(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[Scored]:
        wrapped = np.concatenate(([vocabulary.start], ids, [vocabulary.stop])).astype(np.int64)
        rows = []
        for begin in range(0, len(wrapped), context):
            piece = wrapped[begin : begin + context]
            row = self._hidden(piece, generator, vocabulary=vocabulary, segments=None)
            # The wrapped document begins with <start>, which is no token of its own.
            rows.append(Scored(row, np.flatnonzero(row.weights) + begin - 1))
        return [row for row in rows if len(row.tells)]

    def _hidden(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        segments: Ints | None,
    ) -> Example:
        if vocabulary.mask is None:
            raise UserError(
                "this tokenizer has no [MASK] token, which the masked objective writes",
                topic="objective",
                mend="Train a tokenizer with regard, or choose another objective.",
            )
        ordinary = np.flatnonzero(~np.isin(ids, list(vocabulary.specials)))
        count = min(len(ordinary), max(1, round(self.share * len(ordinary))))
        chosen = np.sort(generator.choice(ordinary, size=count, replace=False))
        fate = generator.random(count)
        inputs = ids.copy()
        inputs[chosen[fate < self.as_mask]] = vocabulary.mask
        swapped = chosen[(fate >= self.as_mask) & (fate < self.as_mask + self.as_random)]
        inputs[swapped] = self._random_tokens(len(swapped), generator, vocabulary)
        weights = np.zeros(len(ids), dtype=np.float32)
        weights[chosen] = 1.0
        return Example(inputs, ids, weights, segments)

    def _random_tokens(
        self, count: int, generator: np.random.Generator, vocabulary: Vocabulary
    ) -> Ints:
        """Any token but a special one."""
        ordinary = np.setdiff1d(np.arange(vocabulary.size), list(vocabulary.specials))
        return generator.choice(ordinary, size=count).astype(np.int64)
