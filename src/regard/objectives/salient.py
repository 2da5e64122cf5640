"""Salient-span recall: given whom a text is about and a few words, predict a name among them.

    <filler> … <start> head before ⁇ after ⁇ span <stop>          ⁇ = [MASK]

    "Stanley Corrsin. Corrsin was born on 3 April 1920 in Philadelphia, Pennsylvania ."
    →  <start> Stanley Corrsin . 1920 in ⁇ , Pennsylvania ⁇ Philadelphia <stop>

The loss is over the span and <stop> only. Little of the sentence remains, so the model has to
recall the span from the head; the random shift makes it find a head at any position, also in the
middle of a question. Guu et al., 2020 (REALM), mask salient spans likewise. A document without a
salient span outside its head (repeats of the head do not count) masks one to three random words. A
row that continues a long document has no head. Evaluation scores one span a document, unshifted.
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
    causal_example,
    check_context,
    document_window,
)
from regard.objectives.salient_spans import (
    NO_PHRASES,
    first_sentence_length,
    has_cue,
    name_spans,
    read_phrases,
    salient_spans,
)
from regard.objectives.words import CACHED_ROWS, Span, WordSpans, find_words

MIN_CONTEXT = 8
MAX_RANDOM_WORDS = 3
"Maximum words of a span that is drawn at random."


@OBJECTIVES.add("salient", families=("decoder",))
class Salient(Objective):
    """Predict a name, date or number from the document's head and a few words around it."""

    spans: Literal["names", "salient", "random"] = "names"
    "What is masked: runs of capitalised words, these and dates and numbers, or any words."
    phrases: str | None = None
    "A text file with one phrase a line, masked too."
    cue_weight: float = Field(default=3.0, ge=0.0)
    "Sampling weight of a span after a preposition or a number; other spans have weight 1."
    head: Literal["first-sentence", "none"] = "first-sentence"
    "What of the document begins every row."
    head_words: int = Field(default=12, ge=1)
    "Maximum words of the head."
    before: int = Field(default=3, ge=0)
    "Maximum words kept before the span."
    after: int = Field(default=3, ge=0)
    "Maximum words kept after the span."
    drop: float = Field(default=0.3, ge=0.0, le=1.0)
    "Probability that a word around the span is left out."
    shift: int = Field(default=16, ge=0)
    "Maximum filler tokens before the row, drawn each time; never more than the context holds."

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        window = document_window(
            document, vocabulary=vocabulary, objective="salient", min_context=MIN_CONTEXT
        )
        if not len(window.ids):
            return causal_example(np.array([vocabulary.start, vocabulary.stop]), slice(None))
        masked = self._choose_span(window, generator, vocabulary)
        row, span = self._build_row(window, masked, generator, vocabulary)
        spare = window.max_length + 1 - len(row)
        shift = int(generator.integers(0, min(self.shift, spare) + 1))
        shifted = np.concatenate((np.full(shift, vocabulary.filler), row))
        return causal_example(shifted, slice(shift + span.begin, None))

    def evaluation_examples(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        check_context(context, objective="salient", min_context=MIN_CONTEXT)
        window = DocumentWindow(ids.astype(np.int64), starts_document=True, max_length=context)
        if not len(ids):
            return []
        masked = self._choose_span(window, generator, vocabulary)
        row, span = self._build_row(window, masked, generator, vocabulary)
        first = int(find_words(window.ids, vocabulary).begins[masked.begin])
        return [ScoredExample(causal_example(row, slice(*span)), first + np.arange(span.size))]

    def evaluation_positions(self, tokens: Ints, *, context: int) -> int:
        return len(tokens) * min(context, MIN_CONTEXT + self.head_words + self.before + self.after)

    def _choose_span(
        self, window: DocumentWindow, generator: np.random.Generator, vocabulary: Vocabulary
    ) -> Span:
        """The span to mask, in words."""
        words = find_words(window.ids, vocabulary)
        head, spans, cumulative = _candidates(self, words, window.starts_document)
        if spans:
            return spans[int(np.searchsorted(cumulative, generator.random(), side="right"))]
        # Where the head is the whole text, words of the head are masked.
        first = head if head < len(words) else 0
        begin = int(generator.integers(first, len(words)))
        size = int(generator.integers(1, MAX_RANDOM_WORDS + 1))
        return Span(begin, min(len(words), begin + size))

    def _find_spans(self, words: WordSpans) -> list[Span]:
        """Salient spans of the whole document, in words."""
        if self.spans == "random":
            return []
        phrases = NO_PHRASES if self.phrases is None else read_phrases(self.phrases)
        find = salient_spans if self.spans == "salient" else name_spans
        return find(words, phrases)

    def _build_row(
        self,
        window: DocumentWindow,
        masked: Span,
        generator: np.random.Generator,
        vocabulary: Vocabulary,
    ) -> tuple[Ints, Span]:
        """The row, and its tokens that hold the span. Where the row is too long, the words around
        the span are truncated first, then the head."""
        words = find_words(window.ids, vocabulary)
        head_words = min(_candidates(self, words, window.starts_document).head, masked.begin)
        mask = np.array([vocabulary.require_mask("salient")])
        spare = window.max_length + 1 - 4  # <start>, two [MASK], <stop>
        span = _tokens(words, range(*masked))[:spare]
        head = _tokens(words, range(head_words))[: spare - len(span)]
        left = self._drop_words(
            range(max(head_words, masked.begin - self.before), masked.begin), generator
        )
        right = self._drop_words(
            range(masked.end, min(len(words), masked.end + self.after)), generator
        )
        spare -= len(span) + len(head)
        before = _tokens(words, left)
        before = before[max(0, len(before) - spare) :]
        after = _tokens(words, right)[: spare - len(before)]
        start, stop = np.array([vocabulary.start]), np.array([vocabulary.stop])
        row = np.concatenate((start, head, before, mask, after, mask, span, stop))
        end = len(row) - 1
        return row, Span(end - len(span), end)

    def _drop_words(self, words: range, generator: np.random.Generator) -> list[int]:
        """The words around a span that are kept."""
        is_kept = generator.random(len(words)) >= self.drop
        return [word for word, keep in zip(words, is_kept, strict=True) if keep]


class Candidates(NamedTuple):
    """The spans of a document that can be masked."""

    head: int
    "Number of words in the head."
    spans: list[Span]
    "Outside the head, with at least one word that the head does not have; in words."
    cumulative: NDArray[np.float64]
    "Cumulative probability of the spans."


@lru_cache(maxsize=CACHED_ROWS)
def _candidates(settings: Salient, words: WordSpans, starts_document: bool) -> Candidates:
    head = 0
    if settings.head == "first-sentence" and starts_document:
        head = min(settings.head_words, first_sentence_length(words))
    in_head = set(words.texts[:head])
    spans = [
        span
        for span in settings._find_spans(words)
        if span.begin >= head and not in_head.issuperset(words.texts[slice(*span)])
    ]
    weights = np.array([settings.cue_weight if has_cue(words, span) else 1.0 for span in spans])
    weights = weights if weights.any() else np.ones(len(spans))
    cumulative = np.cumsum(weights)
    # Divided by its last value, so that it ends in exactly 1.
    return Candidates(head, spans, cumulative / cumulative[-1:])


def _tokens(words: WordSpans, chosen: range | list[int]) -> Ints:
    pieces = [words.ids[words.begins[word] : words.ends[word]] for word in chosen]
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)
