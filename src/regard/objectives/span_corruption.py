"""Span corruption with sentinels, as in T5: each masked span becomes a sentinel in the source; the
target lists the sentinels, each followed by its span.

    text     the cat sat on the mat today
    source   the <extra_0> on the mat <extra_1>
    target   <extra_0> cat sat <extra_1> today <stop>

Raffel et al., 2020. `spans` encodes the source bidirectionally and decodes the target;
`spans-in-row` is the same for a decoder: `<start> source [SEP] target`, with loss on the target
only. Such a row holds fewer tokens, and the end of a long document is truncated. Evaluation scores
the masked tokens, not the sentinels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.batch import Example, Ints
from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.objectives import OBJECTIVES, Objective, ScoredExample, Vocabulary
from regard.objectives.document_window import (
    DocumentWindow,
    causal_example,
    check_context,
    document_rows,
    document_window,
)

MIN_CONTEXT = 8


class CorruptedDocument(NamedTuple):
    """A text with masked spans."""

    source: Ints
    "The unmasked tokens, with a sentinel for each span."
    target: Ints
    "Each sentinel, then the tokens of its span; <stop> at the end."
    masked_positions: Ints
    "Positions of the masked tokens in the text, in order."
    is_text: NDArray[np.bool_]
    "Which tokens of `target` are tokens of the text, not sentinels or <stop>."


class SpanCorruptionObjective(Objective):
    """Settings of objectives that replace spans by sentinels."""

    corruption_rate: float = Field(default=0.15, gt=0.0, lt=1.0)
    "Fraction of the tokens that is masked; at least one token is."
    mean_length: float = Field(default=3.0, ge=1.0)
    "Mean tokens of a span."

    def corrupt(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        objective: str,
    ) -> CorruptedDocument:
        """Special tokens are never masked; a span that contains one becomes two."""
        ordinary = np.flatnonzero(~vocabulary.is_special[ids])
        is_masked = np.zeros(len(ids), dtype=np.bool_)
        is_masked[ordinary[self._draw_mask(len(ordinary), generator)]] = True
        opens_span = is_masked & ~np.concatenate(([False], is_masked[:-1]))
        sentinels = vocabulary.require_sentinels(objective, count=int(opens_span.sum()))
        source = ids.copy()
        source[opens_span] = sentinels
        positions = np.flatnonzero(is_masked)
        before = np.flatnonzero(opens_span[positions])  # the sentinel precedes its span
        target = np.append(np.insert(ids[positions], before, sentinels), vocabulary.stop)
        is_text = np.append(np.insert(np.ones(len(positions), np.bool_), before, False), False)
        return CorruptedDocument(source[opens_span | ~is_masked], target, positions, is_text)

    def corruption_counts(self, tokens: int) -> tuple[int, int]:
        """How many of `tokens` tokens are masked, and in how many spans."""
        masked = min(tokens, max(1, round(self.corruption_rate * tokens)))
        spans = max(1, round(masked / self.mean_length))
        return masked, min(spans, masked, tokens - masked + 1)

    def _draw_mask(self, tokens: int, generator: np.random.Generator) -> NDArray[np.bool_]:
        """(tokens): True = masked; every arrangement of the spans is equally likely."""
        if not tokens:
            return np.zeros(0, dtype=np.bool_)
        masked, spans = self.corruption_counts(tokens)
        cuts = np.sort(generator.choice(masked - 1, size=spans - 1, replace=False)) + 1
        sizes = np.diff(np.concatenate(([0], cuts, [masked])))
        # At least one token separates two spans; the others fall before, between and after them.
        spare = tokens - masked - (spans - 1)
        begins = np.sort(generator.choice(spare + spans, size=spans, replace=False))
        begins += np.concatenate(([0], np.cumsum(sizes[:-1])))
        mask = np.zeros(tokens, dtype=np.bool_)
        for begin, size in zip(begins, sizes, strict=True):
            mask[begin : begin + size] = True
        return mask


@OBJECTIVES.add("spans", families=("encoder-decoder",))
class SpanCorruption(SpanCorruptionObjective):
    """Predict spans masked by sentinels, as T5 does; needs tokenizer.sentinels."""

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        return self._source_and_target(
            # A row has one token more than the context; the next row begins with that token.
            document.ids[:-1],
            generator,
            vocabulary=vocabulary,
            context=document.context,
        )[0]

    def evaluation_examples(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        rows = []
        for begin, chunk in document_rows(ids, context=context, vocabulary=vocabulary):
            row, corrupted = self._source_and_target(
                chunk, generator, vocabulary=vocabulary, context=context
            )
            weights = corrupted.is_text.astype(np.float32)
            example = replace(row, weights=weights)
            rows.append(ScoredExample(example, corrupted.masked_positions + begin))
        return [row for row in rows if len(row.token_indices)]

    def _source_and_target(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        context: int | None,
    ) -> tuple[Example, CorruptedDocument]:
        corrupted = self.corrupt(ids, generator, vocabulary=vocabulary, objective="spans")
        if context is not None and len(corrupted.target) > context:
            raise UserError(
                f"the target has {len(corrupted.target)} tokens, more than "
                f"model.context = {context}",
                topic="objective",
                hint="Lower objective.corruption_rate, or raise objective.mean_length or "
                "model.context.",
            )
        inputs = np.concatenate(([vocabulary.start], corrupted.target[:-1]))
        ones = np.ones(len(corrupted.target), dtype=np.float32)
        return Example(inputs, corrupted.target, ones, source=corrupted.source), corrupted


@OBJECTIVES.add("spans-in-row", families=("decoder",))
class DecoderSpanCorruption(SpanCorruptionObjective):
    """T5's span corruption in one row, for a decoder; needs tokenizer.sentinels."""

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        window = document_window(
            document, vocabulary=vocabulary, objective="spans-in-row", min_context=MIN_CONTEXT
        )
        kept = window.ids[: self._max_tokens(window)]
        row, target, _ = self._build_row(kept, generator, vocabulary)
        return causal_example(row, target)

    def evaluation_examples(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        check_context(context, objective="spans-in-row", min_context=MIN_CONTEXT)
        document = DocumentWindow(ids.astype(np.int64), starts_document=True, max_length=context)
        step = self._max_tokens(document)
        rows = []
        for begin in range(0, len(ids), max(1, step)):
            chunk = document.ids[begin : begin + step]
            row, target, corrupted = self._build_row(chunk, generator, vocabulary)
            scored = np.arange(len(row))[target][corrupted.is_text]
            token_indices = corrupted.masked_positions + begin
            rows.append(ScoredExample(causal_example(row, scored), token_indices))
        return rows

    def _max_tokens(self, window: DocumentWindow) -> int:
        """The most tokens whose row fits: the tokens, two sentinels a span, and <start>, [SEP] and
        <stop>."""
        tokens = min(len(window.ids), window.max_length)
        while tokens > 1:
            _, spans = self.corruption_counts(tokens)
            if tokens + 2 * spans + 3 <= window.max_length + 1:
                break
            tokens -= 1
        return tokens

    def _build_row(
        self, ids: Ints, generator: np.random.Generator, vocabulary: Vocabulary
    ) -> tuple[Ints, slice, CorruptedDocument]:
        """The row, the slice of it that is the target, and the corrupted document."""
        corrupted = self.corrupt(ids, generator, vocabulary=vocabulary, objective="spans-in-row")
        separator = vocabulary.stop if vocabulary.sep is None else vocabulary.sep
        row = np.concatenate(([vocabulary.start], corrupted.source, [separator], corrupted.target))
        return row.astype(np.int64), slice(len(corrupted.source) + 2, None), corrupted
