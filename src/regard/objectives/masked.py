"""Masked language modelling (MLM): predict masked tokens from the context on both sides.

    loss = −Σ_{t masked} log p(x_t | the corrupted row)          Devlin et al., 2019

Labels are the original tokens; only masked positions count, and they keep their position encoding.
Masked are single tokens, whole words (whole-word masking), or salient spans (names, dates, numbers,
phrases of a list) and, where these do not reach the masking rate, whole words beside them.
"""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from regard.batch import Example, Ints
from regard.objectives import OBJECTIVES, Vocabulary
from regard.objectives.masking import MaskingObjective
from regard.objectives.salient_spans import NO_PHRASES, read_phrases, salient_spans
from regard.objectives.words import choose_within_budget, covered_positions, find_words


@OBJECTIVES.add("masked", families=("encoder",))
class Masked(MaskingObjective):
    """Predict masked tokens from the context on both sides (MLM)."""

    choose: Literal["tokens", "words", "salient"] = "tokens"
    "What is masked: any tokens, whole words, or salient spans first and then whole words."
    phrases: str | None = None
    "A text file with one phrase a line, salient too; for choose = salient."

    @model_validator(mode="after")
    def _phrases_are_used(self) -> Self:
        if self.phrases is not None and self.choose != "salient":
            raise ValueError(f'phrases needs choose = "salient", not "{self.choose}"')
        return self

    def masked_example(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        segments: Ints | None,
    ) -> Example:
        positions = self._choose_positions(ids, generator, vocabulary)
        inputs = self.corrupt(
            ids,
            positions,
            draws=generator.random(len(positions)),
            generator=generator,
            vocabulary=vocabulary,
            objective="masked",
        )
        weights = np.zeros(len(ids), dtype=np.float32)
        weights[positions] = 1.0
        return Example(inputs, ids, weights, segments)

    def _choose_positions(
        self, ids: Ints, generator: np.random.Generator, vocabulary: Vocabulary
    ) -> Ints:
        """The positions to mask, in order."""
        ordinary = np.flatnonzero(~vocabulary.is_special[ids])
        budget = self.budget(len(ordinary))
        if self.choose == "tokens":
            return np.sort(generator.choice(ordinary, size=budget, replace=False))
        words = find_words(ids, vocabulary)
        word_spans = words.spans()
        groups = [word_spans[i] for i in generator.permutation(len(word_spans))]
        if self.choose == "salient":
            phrases = NO_PHRASES if self.phrases is None else read_phrases(self.phrases)
            salient = salient_spans(words, phrases)
            first = (words.tokens(salient[i]) for i in generator.permutation(len(salient)))
            groups = [*first, *groups]
        return covered_positions(choose_within_budget(groups, budget=budget))
