"""Span corruption with sentinels: hidden spans are named in order, and told by their names.

    text    the cat sat on the mat today
    given   the <extra_0> on the mat <extra_1>
    told    <extra_0> cat sat <extra_1> today <stop>

Raffel et al., 2020. `spans` reads the given text from both sides and writes what is told;
`spans-in-row` is the same for a decoder: `<start> given [SEP] told`, of which only what is told
counts. A row has less room then, and the end of a long document is left out of it. Measured are the
hidden tokens, not the sentinels.
"""

from __future__ import annotations

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
    check_room,
    document_window,
    told_in_row,
)

LEAST_ROOM = 8


class CorruptedDocument(NamedTuple):
    """A text with hidden spans."""

    given: Ints
    "What is left, a sentinel for each span."
    told: Ints
    "Each sentinel, then the tokens of its span; <stop> at the end."
    hidden: Ints
    "Where in the text the hidden tokens stood, in order."
    text: NDArray[np.bool_]
    "Which of `told` are tokens of the text."


class SpanCorruptionObjective(Objective):
    """Settings of objectives that hide spans behind sentinels."""

    share: float = Field(default=0.15, gt=0.0, lt=1.0)
    "Share of the tokens that are hidden; at least one is."
    mean_length: float = Field(default=3.0, ge=1.0)
    "Tokens of a span, on average."

    def corrupted(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        objective: str,
    ) -> CorruptedDocument:
        """Special tokens are never hidden; a span that meets one becomes two."""
        ordinary = np.flatnonzero(~vocabulary.is_special[ids])
        hidden = np.zeros(len(ids), dtype=np.bool_)
        hidden[ordinary[self._drawn(len(ordinary), generator)]] = True
        first = hidden & ~np.concatenate(([False], hidden[:-1]))
        sentinels = vocabulary.sentinels_for(objective, count=int(first.sum()))
        given = ids.copy()
        given[first] = sentinels
        places = np.flatnonzero(hidden)
        before = np.flatnonzero(first[places])  # a span's sentinel stands before its first token
        told = np.append(np.insert(ids[places], before, sentinels), vocabulary.stop)
        text = np.append(np.insert(np.ones(len(places), np.bool_), before, False), False)
        return CorruptedDocument(given[first | ~hidden], told, places, text)

    def counts(self, tokens: int) -> tuple[int, int]:
        """How many of so many tokens are hidden, in how many spans."""
        hidden = min(tokens, max(1, round(self.share * tokens)))
        spans = max(1, round(hidden / self.mean_length))
        return hidden, min(spans, hidden, tokens - hidden + 1)

    def _drawn(self, tokens: int, generator: np.random.Generator) -> NDArray[np.bool_]:
        """Which tokens are hidden: every way to lay the spans out is as likely as any other."""
        if not tokens:
            return np.zeros(0, dtype=np.bool_)
        hidden, spans = self.counts(tokens)
        cuts = np.sort(generator.choice(hidden - 1, size=spans - 1, replace=False)) + 1
        sizes = np.diff(np.concatenate(([0], cuts, [hidden])))
        # One token at least between two spans; the others fall before, between and after them.
        spare = tokens - hidden - (spans - 1)
        begins = np.sort(generator.choice(spare + spans, size=spans, replace=False))
        begins += np.concatenate(([0], np.cumsum(sizes[:-1])))
        drawn = np.zeros(tokens, dtype=np.bool_)
        for begin, size in zip(begins, sizes, strict=True):
            drawn[begin : begin + size] = True
        return drawn


@OBJECTIVES.add("spans", families=("encoder-decoder",))
class SpanCorruption(SpanCorruptionObjective):
    """Read a text with named gaps, write what stood in each; needs tokenizer.sentinels."""

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        return self._pair(
            # A row has one token more than the context, which the next row begins with.
            document.ids[:-1],
            generator,
            vocabulary=vocabulary,
            room=document.context,
        )[0]

    def scored(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        wrapped = np.concatenate(([vocabulary.start], ids, [vocabulary.stop])).astype(np.int64)
        rows = []
        for begin in range(0, len(wrapped), context):
            piece = wrapped[begin : begin + context]
            row, hidden = self._pair(piece, generator, vocabulary=vocabulary, room=context)
            weights = hidden.text.astype(np.float32)
            shown = Example(row.inputs, row.targets, weights, source=row.source)
            # The wrapped document begins with <start>, which is no token of its own.
            rows.append(ScoredExample(shown, hidden.hidden + begin - 1))
        return [row for row in rows if len(row.tells)]

    def _pair(
        self,
        ids: Ints,
        generator: np.random.Generator,
        *,
        vocabulary: Vocabulary,
        room: int | None,
    ) -> tuple[Example, CorruptedDocument]:
        cut = self.corrupted(ids, generator, vocabulary=vocabulary, objective="spans")
        if room is not None and len(cut.told) > room:
            raise UserError(
                f"{len(cut.told)} tokens are to be told where model.context = {room}",
                topic="objective",
                hint="Lower objective.share, or raise objective.mean_length or model.context.",
            )
        inputs = np.concatenate(([vocabulary.start], cut.told[:-1]))
        ones = np.ones(len(cut.told), dtype=np.float32)
        return Example(inputs, cut.told, ones, source=cut.given), cut


@OBJECTIVES.add("spans-in-row", families=("decoder",))
class DecoderSpanCorruption(SpanCorruptionObjective):
    """Read a text with named gaps, then tell what stood in each; needs tokenizer.sentinels."""

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        passage = document_window(
            document, vocabulary=vocabulary, objective="spans-in-row", least=LEAST_ROOM
        )
        kept = passage.ids[: self._fitting(passage)]
        row, told, _ = self._row(kept, generator, vocabulary)
        return told_in_row(row, told)

    def scored(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        check_room(context, objective="spans-in-row", least=LEAST_ROOM)
        whole = DocumentWindow(ids.astype(np.int64), is_opening=True, room=context)
        step = self._fitting(whole)
        rows = []
        for begin in range(0, len(ids), max(1, step)):
            row, told, cut = self._row(whole.ids[begin : begin + step], generator, vocabulary)
            places = np.arange(len(row))[told][cut.text]
            rows.append(ScoredExample(told_in_row(row, places), cut.hidden + begin))
        return rows

    def _fitting(self, passage: DocumentWindow) -> int:
        """The most tokens whose row fits: they, two sentinels a span, and three marks."""
        tokens = min(len(passage.ids), passage.room)
        while tokens > 1 and tokens + 2 * self.counts(tokens)[1] + 3 > passage.room + 1:
            tokens -= 1
        return tokens

    def _row(
        self, ids: Ints, generator: np.random.Generator, vocabulary: Vocabulary
    ) -> tuple[Ints, slice, CorruptedDocument]:
        cut = self.corrupted(ids, generator, vocabulary=vocabulary, objective="spans-in-row")
        between = vocabulary.stop if vocabulary.sep is None else vocabulary.sep
        row = np.concatenate(([vocabulary.start], cut.given, [between], cut.told))
        return row.astype(np.int64), slice(len(cut.given) + 2, None), cut
