"""Prefix language modelling (prefix LM): encode the first part of a text, predict the rest.

    loss = −Σ_{t ≥ c} log p(x_t | x_1 … x_{c−1}, x_c … x_{t−1})       Raffel et al., 2020

The split point c is drawn for each row. The prefix is the source, encoded bidirectionally; the
rest is the target, decoded left to right.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from regard.batch import Example, Ints
from regard.data.chunks import Document
from regard.objectives import OBJECTIVES, Objective, ScoredExample, Vocabulary
from regard.objectives.document_window import document_rows


@OBJECTIVES.add("prefix", families=("encoder-decoder", "recurrent"))
class PrefixLM(Objective):
    """Encode a prefix of the text, predict the rest (prefix LM)."""

    min_prefix_fraction: float = Field(default=0.25, gt=0.0, lt=1.0)
    "Minimum length of the prefix, as a fraction of the row."
    max_prefix_fraction: float = Field(default=0.75, gt=0.0, lt=1.0)
    "Maximum length of the prefix, as a fraction of the row."

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_prefix_fraction > self.max_prefix_fraction:
            raise ValueError(
                f"min_prefix_fraction = {self.min_prefix_fraction} is more than "
                f"max_prefix_fraction = {self.max_prefix_fraction}"
            )
        return self

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        return self._split(document.ids, generator, vocabulary=vocabulary)[0]

    def evaluation_examples(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        rows = []
        for begin, chunk in document_rows(ids, context=context, vocabulary=vocabulary):
            if len(chunk) > 1:
                row, prefix = self._split(chunk, generator, vocabulary=vocabulary)
                rows.append(ScoredExample(row, np.arange(prefix, len(chunk)) + begin))
        return rows

    def _split(
        self, ids: Ints, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> tuple[Example, int]:
        """The example and the length of its prefix; prefix and target have at least one token."""
        fraction = generator.uniform(self.min_prefix_fraction, self.max_prefix_fraction)
        prefix = min(len(ids) - 1, max(1, round(fraction * len(ids))))
        target = ids[prefix:]
        return Example(
            inputs=np.concatenate(([vocabulary.start], target[:-1])),
            targets=target,
            weights=np.ones(len(target), dtype=np.float32),
            source=ids[:prefix],
        ), prefix
