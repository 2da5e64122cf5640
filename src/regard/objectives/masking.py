"""What becomes of hidden places: most a [MASK], some a random token, some stay as they are.

The model cannot know which of the tokens it sees are true, so it has to know what belongs at every
place (Devlin et al., 2019).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from regard.batch import Example, Ints
from regard.data.chunks import Document
from regard.objectives import Objective, ScoredExample, Vocabulary


class MaskingObjective(Objective):
    """Settings of objectives that hide some places of a row."""

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

    @abstractmethod
    def hidden(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        segments: Ints | None,
    ) -> Example:
        """A row with some of its places hidden."""

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        # A row has one token more than the context, which the next row begins with.
        segments = document.segments
        return self.hidden(
            document.ids[:-1],
            generator,
            vocabulary=vocabulary,
            segments=None if segments is None else segments[:-1],
        )

    def scored(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        wrapped = np.concatenate(([vocabulary.start], ids, [vocabulary.stop])).astype(np.int64)
        rows = []
        for begin in range(0, len(wrapped), context):
            piece = wrapped[begin : begin + context]
            row = self.hidden(piece, generator, vocabulary=vocabulary, segments=None)
            # The wrapped document begins with <start>, which is no token of its own.
            rows.append(ScoredExample(row, np.flatnonzero(row.weights) + begin - 1))
        return [row for row in rows if len(row.tells)]

    def budget(self, tokens: int) -> int:
        """How many of so many tokens are to be chosen."""
        return min(tokens, max(1, round(self.share * tokens)))

    def disguised(
        self,
        ids: Ints,
        chosen: Ints,
        *,
        fate: NDArray[np.float64],
        generator: np.random.Generator,
        vocabulary: Vocabulary,
        objective: str,
    ) -> Ints:
        """The row with its chosen places hidden; `fate` in [0, 1) decides what each becomes."""
        inputs = ids.copy()
        inputs[chosen[fate < self.as_mask]] = vocabulary.mask_for(objective)
        swapped = chosen[(fate >= self.as_mask) & (fate < self.as_mask + self.as_random)]
        inputs[swapped] = generator.choice(vocabulary.ordinary, size=len(swapped))
        return inputs
