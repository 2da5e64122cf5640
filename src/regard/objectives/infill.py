"""Infilling: a span is cut out of the text and moved to its end, where it is predicted.

    <start> prefix ⁇ suffix ⁇ masked <stop>          ⁇ = [MASK]

Span corruption for decoders (Raffel et al., 2020; in this form Stanford CS224N, assignment 5). The
document is truncated to a length drawn uniformly, between a few tokens and most of the context; a
quarter of that is masked on average. Evaluation scores the masked tokens over the whole document,
in windows that are not truncated at random.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from regard.batch import Example, Ints
from regard.data.chunks import Document
from regard.objectives import OBJECTIVES, Objective, ScoredExample, Vocabulary
from regard.objectives.document_window import (
    DocumentWindow,
    causal_example,
    check_context,
    document_window,
)
from regard.objectives.words import Span

MIN_CONTEXT = 4


@OBJECTIVES.add("infill", families=("decoder",))
class Infill(Objective):
    """Predict a masked span after the text around it."""

    min_tokens: int = Field(default=4, ge=1)
    "Minimum tokens kept of a document, where it has that many."
    max_context_fraction: float = Field(default=0.875, gt=0.0, le=1.0)
    "Maximum tokens kept of a document, as a fraction of the context."
    masking_rate: float = Field(default=0.25, gt=0.0, le=0.5)
    "Fraction of the kept tokens that is masked, on average."
    length_jitter: float = Field(default=1.0, ge=0.0, le=1.0)
    "How much the span length varies: 1 from one token to twice the mean, 0 not at all."
    loss_on: Literal["everything", "masked"] = "everything"
    "Which tokens the loss counts: all of the row, or the masked ones and <stop>."

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        window = document_window(
            document, vocabulary=vocabulary, objective="infill", min_context=MIN_CONTEXT
        )
        max_tokens = self._max_tokens(window.max_length)
        length = int(generator.integers(min(self.min_tokens, max_tokens), max_tokens + 1))
        kept = window.ids[:length]
        span = self._draw_span(len(kept), generator)
        row, masked = _move_span_to_end(window._replace(ids=kept), span, vocabulary)
        return causal_example(row, slice(None) if self.loss_on == "everything" else masked)

    def evaluation_examples(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        check_context(context, objective="infill", min_context=MIN_CONTEXT)
        rows = []
        for begin in range(0, len(ids), self._max_tokens(context)):
            chunk = ids[begin : begin + self._max_tokens(context)].astype(np.int64)
            span = self._draw_span(len(chunk), generator)
            window = DocumentWindow(chunk, begin == 0, context)
            row, masked = _move_span_to_end(window, span, vocabulary)
            without_stop = slice(masked.start, masked.start + span.size)
            rows.append(ScoredExample(causal_example(row, without_stop), begin + np.arange(*span)))
        return rows

    def _max_tokens(self, context: int) -> int:
        """Maximum tokens kept of a document; the two [MASK] tokens always fit beside them."""
        return max(1, min(int(self.max_context_fraction * context), context - 1))

    def _draw_span(self, tokens: int, generator: np.random.Generator) -> Span:
        """The masked span: anywhere in the text, `masking_rate` of its tokens on average."""
        mean = max(1.0, self.masking_rate * tokens)
        drawn = mean + self.length_jitter * (mean - 1) * generator.uniform(-1, 1)
        # Stochastic rounding, which keeps the mean.
        size = min(tokens, int(drawn + generator.random()))
        begin = int(generator.integers(0, tokens - size + 1))
        return Span(begin, begin + size)


def _move_span_to_end(
    window: DocumentWindow, span: Span, vocabulary: Vocabulary
) -> tuple[Ints, slice]:
    """The row, and the slice of it that holds the masked tokens, with <stop> where it fits."""
    ids, mask = window.ids, [vocabulary.require_mask("infill")]
    before, masked, after = ids[: span.begin], ids[slice(*span)], ids[span.end :]
    # The last token of a row is only a target: max_length + 1 tokens take max_length positions.
    spare = window.max_length + 1 - len(ids) - 2
    opening = [vocabulary.start] if spare >= 1 else []
    closing = [vocabulary.stop] if spare >= 2 else []
    row = np.concatenate((opening, before, mask, after, mask, masked, closing)).astype(np.int64)
    begin = len(opening) + len(before) + len(after) + 2
    return row, slice(begin, begin + len(masked) + len(closing))
