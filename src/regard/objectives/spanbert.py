"""SpanBERT: spans of whole words are masked, and predicted from inside and from their boundaries.

    p(length = l) ∝ 0.2 · 0.8^{l−1},  l = 1 … 10 words           loss = masked loss + boundary loss

Joshi et al., 2020. Spans are whole words, drawn until the masking rate is reached (the last one is
truncated at a word boundary to fit), with at least one token between two spans. All tokens of a
span get the same replacement: [MASK], random tokens, or the original. `labels` give for each masked
token its position and the positions just outside its span, from which the span-boundary objective
predicts it a second time (model.boundary = true); a span at the edge of its row lacks one boundary
and has no boundary loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.batch import Example, Ints
from regard.objectives import OBJECTIVES, Vocabulary
from regard.objectives.masking import MaskingObjective
from regard.objectives.words import Span, WordSpans, covered_positions, find_words


@OBJECTIVES.add("spanbert", families=("encoder",))
class SpanBert(MaskingObjective):
    """Predict masked spans of whole words, also from their two boundaries."""

    model_settings: ClassVar[Mapping[str, Any]] = {"boundary": True}

    geometric_p: float = Field(default=0.2, gt=0.0, lt=1.0)
    "Parameter p of the geometric distribution of span lengths, in words."
    max_span_words: int = Field(default=10, ge=1)
    "Maximum words of a span; longer draws are redrawn, not truncated."

    def length_distribution(self) -> NDArray[np.float64]:
        """Probability of a span of 1, 2, … words: geometric, cut off and renormalised."""
        exponents = np.arange(self.max_span_words, dtype=np.float64)
        geometric = self.geometric_p * np.power(1 - self.geometric_p, exponents)
        normalised: NDArray[np.float64] = geometric / geometric.sum()
        return normalised

    def draw_spans(self, words: WordSpans, generator: np.random.Generator) -> list[Span]:
        """Spans of tokens that come as near to the masking rate as whole words can."""
        remaining = self.budget(int((words.ends - words.begins).sum()))
        distribution = self.length_distribution()
        free = np.ones(len(words.ids), dtype=np.bool_)
        spans: list[Span] = []
        for first in generator.permutation(len(words)).tolist():
            length = int(generator.choice(len(distribution), p=distribution)) + 1
            span = _truncate(words, _extend(words, first, length), max_tokens=remaining)
            if span is None or not free[max(0, span.begin - 1) : span.end + 1].all():
                continue
            free[slice(*span)] = False
            spans.append(span)
            remaining -= span.size
            if remaining == 0:
                break
        if not spans and len(words):  # every word exceeds the budget: mask one whole
            begin = int(generator.integers(len(words)))
            spans = [words.tokens(Span(begin, begin + 1))]
        return sorted(spans)

    def masked_example(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        segments: Ints | None,
    ) -> Example:
        spans = self.draw_spans(find_words(ids, vocabulary), generator)
        draws = generator.random(len(spans))
        positions = covered_positions(spans)
        inputs = self.corrupt(
            ids,
            positions,
            draws=np.repeat(draws, [span.size for span in spans]),
            generator=generator,
            vocabulary=vocabulary,
            objective="spanbert",
        )
        weights = np.zeros(len(ids), dtype=np.float32)
        weights[positions] = 1.0
        return Example(inputs, ids, weights, segments, labels=_boundary_labels(spans, len(ids)))


def _extend(words: WordSpans, first: int, length: int) -> Span:
    """`length` words from `first` on, in words; fewer where a special token interrupts them."""
    end = first + 1
    while end < min(len(words), first + length) and words.follows[end]:
        end += 1
    return Span(first, end)


def _truncate(words: WordSpans, span: Span, *, max_tokens: int) -> Span | None:
    """The tokens of the first words of a span that fit; None where not even one does."""
    ends = words.ends[slice(*span)] - words.begins[span.begin]
    count = int((ends <= max_tokens).sum())
    return words.tokens(Span(span.begin, span.begin + count)) if count else None


def _boundary_labels(spans: list[Span], length: int) -> Ints:
    """(3n): position, left and right boundary of each masked token whose span has both."""
    labels = [
        (position, span.begin - 1, span.end)
        for span in spans
        if span.begin > 0 and span.end < length
        for position in range(*span)
    ]
    return np.array(labels, dtype=np.int64).reshape(-1)
