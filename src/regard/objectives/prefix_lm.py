"""Prefix language modelling: read the first part of a text, tell the rest.

    loss = −Σ_{t ≥ c} log p(x_t | x_1 … x_{c−1} read whole, x_c … x_{t−1})       Raffel et al., 2020

Where the text is cut is drawn anew for each row; the source is read from both sides, the target is
told token by token.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from regard.batch import Example, Ints
from regard.data.chunks import Document
from regard.objectives import OBJECTIVES, Objective, ScoredExample, Vocabulary


@OBJECTIVES.add("prefix", families=("encoder-decoder", "recurrent"))
class PrefixLM(Objective):
    """Read the first part of a text, tell the rest."""

    shortest: float = Field(default=0.25, gt=0.0, lt=1.0)
    "Share of the row that is read, at least."
    longest: float = Field(default=0.75, gt=0.0, lt=1.0)
    "Share of the row that is read, at most."

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest = {self.shortest} is more than longest = {self.longest}")
        return self

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        return self._cut(document.ids, generator, vocabulary=vocabulary)[0]

    def scored(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        wrapped = np.concatenate(([vocabulary.start], ids, [vocabulary.stop])).astype(np.int64)
        rows = []
        for begin in range(0, len(wrapped), context):
            piece = wrapped[begin : begin + context]
            if len(piece) > 1:
                row, cut = self._cut(piece, generator, vocabulary=vocabulary)
                # The wrapped document begins with <start>, which is no token of its own.
                rows.append(ScoredExample(row, np.arange(cut, len(piece)) + begin - 1))
        return rows

    def _cut(
        self, ids: Ints, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> tuple[Example, int]:
        """The example and where it was cut; both sides have a token at least."""
        share = generator.uniform(self.shortest, self.longest)
        cut = min(len(ids) - 1, max(1, round(share * len(ids))))
        target = ids[cut:]
        return Example(
            inputs=np.concatenate(([vocabulary.start], target[:-1])),
            targets=target,
            weights=np.ones(len(target), dtype=np.float32),
            source=ids[:cut],
        ), cut
