"""Infilling: a span of the text is moved to its end; read what is left, then tell the span.

    <start> prefix ⁇ suffix ⁇ masked <stop>          ⁇ = [MASK]

Span corruption for decoders (Raffel et al., 2020; in this form Stanford CS224N, assignment 5). The
document is cut to a length drawn uniformly, between a few tokens and most of the context; what is
masked is a quarter of that on average. Measured are the masked tokens, of the whole document, in
windows that are not cut at random.
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
    check_room,
    document_window,
    told_in_row,
)
from regard.objectives.words import Span

LEAST_ROOM = 4


@OBJECTIVES.add("infill", families=("decoder",))
class Infill(Objective):
    """Read a text with a gap, then tell what stood in the gap."""

    shortest: int = Field(default=4, ge=1)
    "Tokens that are kept of a document, at least, where it has so many."
    longest: float = Field(default=0.875, gt=0.0, le=1.0)
    "Share of the context that is kept of a document, at most."
    share: float = Field(default=0.25, gt=0.0, le=0.5)
    "Share of the kept tokens that is masked, on average."
    spread: float = Field(default=1.0, ge=0.0, le=1.0)
    "How much the masked length varies: 1 from one token to twice the average, 0 not at all."
    tells: Literal["everything", "masked"] = "everything"
    "What the loss counts: every token of the row, or the masked ones and <stop>."

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        passage = document_window(
            document, vocabulary=vocabulary, objective="infill", least=LEAST_ROOM
        )
        most = self._most(passage.room)
        length = int(generator.integers(min(self.shortest, most), most + 1))
        kept = passage.ids[:length]
        hidden = self._gap(len(kept), generator)
        row, told = _rearranged(passage._replace(ids=kept), hidden, vocabulary)
        return told_in_row(row, slice(None) if self.tells == "everything" else told)

    def scored(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        check_room(context, objective="infill", least=LEAST_ROOM)
        rows = []
        for begin in range(0, len(ids), self._most(context)):
            piece = ids[begin : begin + self._most(context)].astype(np.int64)
            hidden = self._gap(len(piece), generator)
            row, told = _rearranged(DocumentWindow(piece, begin == 0, context), hidden, vocabulary)
            masked = slice(told.start, told.start + hidden.size)
            rows.append(ScoredExample(told_in_row(row, masked), begin + np.arange(*hidden)))
        return rows

    def _most(self, room: int) -> int:
        """Tokens of a document at most: two marks beside them always have room."""
        return max(1, min(int(self.longest * room), room - 1))

    def _gap(self, tokens: int, generator: np.random.Generator) -> Span:
        """Which of so many tokens are masked: any place, `share` of them on average."""
        mean = max(1.0, self.share * tokens)
        drawn = mean + self.spread * (mean - 1) * generator.uniform(-1, 1)
        # Rounded up as often as its fraction says, so that rounding does not move the average.
        size = min(tokens, int(drawn + generator.random()))
        begin = int(generator.integers(0, tokens - size + 1))
        return Span(begin, begin + size)


def _rearranged(
    passage: DocumentWindow, hidden: Span, vocabulary: Vocabulary
) -> tuple[Ints, slice]:
    """The row, and where in it the masked tokens stand, with <stop> where it has room."""
    ids, mark = passage.ids, [vocabulary.mask_for("infill")]
    before, gap, after = ids[: hidden.begin], ids[slice(*hidden)], ids[hidden.end :]
    # The last token of a row is only told: a row of room + 1 tokens takes `room` places.
    spare = passage.room + 1 - len(ids) - 2
    opening = [vocabulary.start] if spare >= 1 else []
    closing = [vocabulary.stop] if spare >= 2 else []
    row = np.concatenate((opening, before, mark, after, mark, gap, closing)).astype(np.int64)
    begin = len(opening) + len(before) + len(after) + 2
    return row, slice(begin, begin + len(gap) + len(closing))
