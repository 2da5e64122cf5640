"""BERT-style masking: most masked positions become [MASK], some a random token, some stay.

The model cannot tell which input tokens are original, so it has to model every position
(Devlin et al., 2019).
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
from regard.objectives.document_window import document_rows


class MaskingObjective(Objective):
    """Settings of objectives that mask positions of a row."""

    masking_rate: float = Field(default=0.15, gt=0.0, lt=1.0)
    "Fraction of a row's tokens that is masked; at least one token is."
    replace_with_mask: float = Field(default=0.8, ge=0.0, le=1.0)
    "Fraction of the masked positions that become [MASK]."
    replace_with_random: float = Field(default=0.1, ge=0.0, le=1.0)
    "Fraction of the masked positions that become a random token; the rest stay unchanged."

    @model_validator(mode="after")
    def _fractions_fit(self) -> Self:
        if self.replace_with_mask + self.replace_with_random > 1:
            raise ValueError(
                f"replace_with_mask = {self.replace_with_mask} and replace_with_random = "
                f"{self.replace_with_random} sum to more than 1"
            )
        return self

    @abstractmethod
    def masked_example(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        segments: Ints | None,
    ) -> Example:
        """A row with some of its positions masked; targets are the original ids."""

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        # A row has one token more than the context; the next row begins with that token.
        segments = document.segments
        return self.masked_example(
            document.ids[:-1],
            generator,
            vocabulary=vocabulary,
            segments=None if segments is None else segments[:-1],
        )

    def evaluation_examples(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        rows = []
        for begin, chunk in document_rows(ids, context=context, vocabulary=vocabulary):
            row = self.masked_example(chunk, generator, vocabulary=vocabulary, segments=None)
            rows.append(ScoredExample(row, np.flatnonzero(row.weights) + begin))
        return [row for row in rows if len(row.token_indices)]

    def budget(self, tokens: int) -> int:
        """How many of `tokens` tokens to mask."""
        return min(tokens, max(1, round(self.masking_rate * tokens)))

    def corrupt(
        self,
        ids: Ints,
        positions: Ints,
        *,
        draws: NDArray[np.float64],
        generator: np.random.Generator,
        vocabulary: Vocabulary,
        objective: str,
    ) -> Ints:
        """The row with its masked positions replaced; `draws` in [0, 1), one a position, decide
        between [MASK], a random token and the original."""
        inputs = ids.copy()
        inputs[positions[draws < self.replace_with_mask]] = vocabulary.require_mask(objective)
        random_below = self.replace_with_mask + self.replace_with_random
        randomised = positions[(draws >= self.replace_with_mask) & (draws < random_below)]
        inputs[randomised] = generator.choice(vocabulary.ordinary, size=len(randomised))
        return inputs
