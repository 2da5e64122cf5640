"""SpanBERT: whole spans of words are hidden, and told from inside and from their ends.

    p(length = l) ∝ 0.2 · 0.8^{l−1},  l = 1 … 10 words           loss = masked loss + boundary loss

Joshi et al., 2020. Spans are whole words, drawn until the share is reached (the last is cut between
words to fit), and at least one token stays between two of them. A span has one fate: all [MASK],
all random tokens, or as it is. `labels` name for each hidden token its place and the places just
outside its span, by which the model tells it a second time (model.boundary = true); a span at the
edge of its row has no second end, and is told from inside alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.batch import Example, Ints
from regard.objectives import OBJECTIVES, Vocabulary
from regard.objectives.masking import MaskingObjective
from regard.objectives.words import Span, WordSpans, places_of, words_of


@OBJECTIVES.add("spanbert", families=("encoder",))
class SpanBert(MaskingObjective):
    """Tell hidden spans of whole words, also from their two ends."""

    ending: float = Field(default=0.2, gt=0.0, lt=1.0)
    "Probability that a span ends after each of its words."
    longest: int = Field(default=10, ge=1)
    "Words of a span at most; longer draws are drawn again, not cut."

    def lengths_law(self) -> NDArray[np.float64]:
        """The probability of a span of 1, 2, … words: geometric, cut off and renormalised."""
        law = self.ending * np.power(1 - self.ending, np.arange(self.longest, dtype=np.float64))
        scaled: NDArray[np.float64] = law / law.sum()
        return scaled

    def drawn_spans(self, words: WordSpans, generator: np.random.Generator) -> list[Span]:
        """Spans of tokens that fill the share as nearly as whole words can."""
        budget = self.budget(int((words.ends - words.begins).sum()))
        law = self.lengths_law()
        free = np.ones(len(words.ids), dtype=np.bool_)
        chosen: list[Span] = []
        room = budget
        for first in generator.permutation(len(words)).tolist():
            length = int(generator.choice(len(law), p=law)) + 1
            span = _fitting(words, _grown(words, first, most=length), room=room)
            if span is None or not free[max(0, span.begin - 1) : span.end + 1].all():
                continue
            free[slice(*span)] = False
            chosen.append(span)
            room -= span.size
            if room == 0:
                break
        if not chosen and len(words):  # every word is longer than the share: one is hidden whole
            begin = int(generator.integers(len(words)))
            chosen = [words.tokens(Span(begin, begin + 1))]
        return sorted(chosen)

    def hidden(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        segments: Ints | None,
    ) -> Example:
        spans = self.drawn_spans(words_of(ids, vocabulary), generator)
        fates = generator.random(len(spans))
        chosen = places_of(spans)
        inputs = self.disguised(
            ids,
            chosen,
            fate=np.repeat(fates, [span.size for span in spans]),
            generator=generator,
            vocabulary=vocabulary,
            objective="spanbert",
        )
        weights = np.zeros(len(ids), dtype=np.float32)
        weights[chosen] = 1.0
        return Example(inputs, ids, weights, segments, labels=_ends(spans, len(ids)))


def _grown(words: WordSpans, first: int, *, most: int) -> Span:
    """So many words from the first on, in words; fewer where a special token stands between."""
    end = first + 1
    while end < min(len(words), first + most) and words.follows[end]:
        end += 1
    return Span(first, end)


def _fitting(words: WordSpans, span: Span, *, room: int) -> Span | None:
    """Its tokens, without the last words that have no room; None where not even one has."""
    ends = words.ends[slice(*span)] - words.begins[span.begin]
    count = int((ends <= room).sum())
    return words.tokens(Span(span.begin, span.begin + count)) if count else None


def _ends(spans: list[Span], row: int) -> Ints:
    """(3n): place, left end and right end of each hidden token whose span has both."""
    named = [
        (place, span.begin - 1, span.end)
        for span in spans
        if span.begin > 0 and span.end < row
        for place in range(*span)
    ]
    return np.array(named, dtype=np.int64).reshape(-1)
