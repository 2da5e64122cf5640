"""Masked language modelling: some tokens are hidden; tell what stood there from both sides.

    loss = −Σ_{t hidden} log p(x_t | the row with hidden places)          Devlin et al., 2019

Labels are the original tokens; only chosen places count, and the position signal of a hidden place
is kept. Chosen are single tokens, whole words, or salient spans (names, dates, numbers, phrases of
a list) and, where these do not fill the share, whole words beside them.
"""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from regard.batch import Example, Ints
from regard.objectives import OBJECTIVES, Vocabulary
from regard.objectives.masking import MaskingObjective
from regard.objectives.salient_spans import NO_PHRASES, read_phrases, salient_spans
from regard.objectives.words import chosen_within, places_of, words_of


@OBJECTIVES.add("masked", families=("encoder",))
class Masked(MaskingObjective):
    """Tell hidden tokens from what stands on both sides of them."""

    choose: Literal["tokens", "words", "salient"] = "tokens"
    "What is hidden: any tokens, whole words, or salient spans first and then whole words."
    phrases: str | None = None
    "A text file with one phrase a line, salient too; for choose = salient."

    @model_validator(mode="after")
    def _phrases_are_used(self) -> Self:
        if self.phrases is not None and self.choose != "salient":
            raise ValueError(f'phrases needs choose = "salient", not "{self.choose}"')
        return self

    def hidden(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        segments: Ints | None,
    ) -> Example:
        chosen = self._chosen(ids, generator, vocabulary)
        inputs = self.disguised(
            ids,
            chosen,
            fate=generator.random(len(chosen)),
            generator=generator,
            vocabulary=vocabulary,
            objective="masked",
        )
        weights = np.zeros(len(ids), dtype=np.float32)
        weights[chosen] = 1.0
        return Example(inputs, ids, weights, segments)

    def _chosen(self, ids: Ints, generator: np.random.Generator, vocabulary: Vocabulary) -> Ints:
        """The places to hide, in order."""
        ordinary = np.flatnonzero(~vocabulary.is_special[ids])
        budget = self.budget(len(ordinary))
        if self.choose == "tokens":
            return np.sort(generator.choice(ordinary, size=budget, replace=False))
        words = words_of(ids, vocabulary)
        single = words.spans()
        groups = [single[i] for i in generator.permutation(len(single))]
        if self.choose == "salient":
            phrases = NO_PHRASES if self.phrases is None else read_phrases(self.phrases)
            salient = salient_spans(words, phrases)
            first = (words.tokens(salient[i]) for i in generator.permutation(len(salient)))
            groups = [*first, *groups]
        return places_of(chosen_within(groups, budget=budget))
