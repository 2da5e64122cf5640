"""Salient spans, for recall: read whom a text is about and a few words; tell the name among them.

    <filler> … <start> head before ⁇ after ⁇ span <stop>          ⁇ = [MASK]

    "Stanley Corrsin. Corrsin was born on 3 April 1920 in Philadelphia, Pennsylvania ."
    →  <start> Stanley Corrsin . 1920 in ⁇ , Pennsylvania ⁇ Philadelphia <stop>

The loss is of the span (and <stop>) alone. Little is left of the sentence, so what fills the gap
has to be remembered of the head; a head that is met at varying places is found anywhere, also in
the middle of a question. Guu et al., 2020, hide salient spans likewise. A document without a
salient span (one that only repeats the head is none) hides one to three words of any sort. A row
that goes on with a long document has no head. Each document is measured on one span, unshifted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.batch import Example, Ints
from regard.data.chunks import Document
from regard.objectives import OBJECTIVES, Objective, ScoredExample, Vocabulary
from regard.objectives.document_window import (
    DocumentWindow,
    check_room,
    document_window,
    told_in_row,
)
from regard.objectives.salient_spans import (
    NO_PHRASES,
    first_sentence,
    is_introduced,
    name_runs,
    read_phrases,
    salient_spans,
)
from regard.objectives.words import ROWS_REMEMBERED, Span, WordSpans, words_of

LEAST_ROOM = 8
RANDOM_WORDS = 3
"Most words of a span that is drawn at random."


@OBJECTIVES.add("salient", families=("decoder",))
class Salient(Objective):
    """Tell a name, date or number from the head of its document and a few words around it."""

    spans: Literal["names", "salient", "random"] = "names"
    "What is asked for: runs of capitalised words, these and dates and numbers, or any words."
    phrases: str | None = None
    "A text file with one phrase a line, asked for too."
    favour: float = Field(default=3.0, ge=0.0)
    "How much oftener a span behind a preposition or a number is drawn; 1: as often as others."
    head: Literal["first-sentence", "none"] = "first-sentence"
    "What of the document stands before every question."
    head_words: int = Field(default=12, ge=1)
    "Words of the head at most."
    before: int = Field(default=3, ge=0)
    "Words that are left before the span, at most."
    after: int = Field(default=3, ge=0)
    "Words that are left after the span, at most."
    drop: float = Field(default=0.3, ge=0.0, le=1.0)
    "Share of the words around the span that are left out at random."
    shift: int = Field(default=16, ge=0)
    "Filler tokens before the row, at most, drawn anew each time; never more than there is room."

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        passage = document_window(
            document, vocabulary=vocabulary, objective="salient", least=LEAST_ROOM
        )
        if not len(passage.ids):
            return told_in_row(np.array([vocabulary.start, vocabulary.stop]), slice(None))
        asked = self._asked(passage, generator, vocabulary)
        row, span = self._row(passage, asked, generator, vocabulary)
        spare = passage.room + 1 - len(row)
        shift = int(generator.integers(0, min(self.shift, spare) + 1))
        shifted = np.concatenate((np.full(shift, vocabulary.filler), row))
        return told_in_row(shifted, slice(shift + span.begin, None))

    def scored(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        check_room(context, objective="salient", least=LEAST_ROOM)
        passage = DocumentWindow(ids.astype(np.int64), is_opening=True, room=context)
        if not len(ids):
            return []
        asked = self._asked(passage, generator, vocabulary)
        row, span = self._row(passage, asked, generator, vocabulary)
        first = int(words_of(passage.ids, vocabulary).begins[asked.begin])
        return [ScoredExample(told_in_row(row, slice(*span)), first + np.arange(span.size))]

    def places_scored(self, tokens: Ints, *, context: int) -> int:
        return len(tokens) * min(context, LEAST_ROOM + self.head_words + self.before + self.after)

    def _asked(
        self, passage: DocumentWindow, generator: np.random.Generator, vocabulary: Vocabulary
    ) -> Span:
        """The span to ask for, in words."""
        words = words_of(passage.ids, vocabulary)
        head, spans, up_to = _candidates(self, words, passage.is_opening)
        if spans:
            return spans[int(np.searchsorted(up_to, generator.random(), side="right"))]
        # Where the head is all there is, some of the head is asked for.
        first = head if head < len(words) else 0
        begin = int(generator.integers(first, len(words)))
        return Span(begin, min(len(words), begin + int(generator.integers(1, RANDOM_WORDS + 1))))

    def _spans(self, words: WordSpans) -> list[Span]:
        """Of the whole document, in words."""
        if self.spans == "random":
            return []
        phrases = NO_PHRASES if self.phrases is None else read_phrases(self.phrases)
        find = salient_spans if self.spans == "salient" else name_runs
        return find(words, phrases)

    def _row(
        self,
        passage: DocumentWindow,
        asked: Span,
        generator: np.random.Generator,
        vocabulary: Vocabulary,
    ) -> tuple[Ints, Span]:
        """The row, and where the span stands in it; the span has room first, then the head."""
        words = words_of(passage.ids, vocabulary)
        head = min(_candidates(self, words, passage.is_opening).head, asked.begin)
        mark = np.array([vocabulary.mask_for("salient")])
        room = passage.room + 1 - 4  # <start>, two marks, <stop>
        span = _tokens(words, range(*asked))[:room]
        name = _tokens(words, range(head))[: room - len(span)]
        left = self._some(range(max(head, asked.begin - self.before), asked.begin), generator)
        right = self._some(range(asked.end, min(len(words), asked.end + self.after)), generator)
        room -= len(span) + len(name)
        before = _tokens(words, left)
        before = before[max(0, len(before) - room) :]
        after = _tokens(words, right)[: room - len(before)]
        opening, closing = np.array([vocabulary.start]), np.array([vocabulary.stop])
        row = np.concatenate((opening, name, before, mark, after, mark, span, closing))
        end = len(row) - 1
        return row, Span(end - len(span), end)

    def _some(self, words: range, generator: np.random.Generator) -> list[int]:
        """What is left of the words around a span."""
        kept = generator.random(len(words)) >= self.drop
        return [word for word, keep in zip(words, kept, strict=True) if keep]


class Candidates(NamedTuple):
    """What can be asked of a document."""

    head: int
    "How many words are its head."
    spans: list[Span]
    "Outside the head, and saying more than it does; in words."
    up_to: NDArray[np.float64]
    "The probability that one of the spans up to each is drawn."


@lru_cache(maxsize=ROWS_REMEMBERED)
def _candidates(settings: Salient, words: WordSpans, is_opening: bool) -> Candidates:
    head = 0
    if settings.head == "first-sentence" and is_opening:
        head = min(settings.head_words, first_sentence(words))
    known = set(words.texts[:head])
    spans = [
        span
        for span in settings._spans(words)
        if span.begin >= head and not known.issuperset(words.texts[slice(*span)])
    ]
    weights = np.array([settings.favour if is_introduced(words, span) else 1.0 for span in spans])
    weights = weights if weights.any() else np.ones(len(spans))
    up_to = np.cumsum(weights)
    return Candidates(head, spans, up_to / up_to[-1:])  # by its own last, so that it ends in 1


def _tokens(words: WordSpans, chosen: range | list[int]) -> Ints:
    parts = [words.ids[words.begins[word] : words.ends[word]] for word in chosen]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
