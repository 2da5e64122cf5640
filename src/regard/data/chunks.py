"""Rows: what a language model reads at once, cut from a part of the token cache on demand.

`DocumentChunks` keeps documents apart; `PackedBlocks` lays them end to end and cuts rows of one length. Both cut
`<start> document <stop>` into rows of at most context + 1 tokens which overlap by one, because a
row of n tokens gives n − 1 predictions: every token after the first is a target exactly once.

    context 3, pieces:  <start> a b c | c d e <stop>        targets  a b c | d e <stop>
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError

Ints = NDArray[np.int64]


class TokenSplit(Protocol):
    """What rows need of a cached part: its documents' ids, and where each begins and ends."""

    @property
    def offsets(self) -> NDArray[Any]: ...
    @property
    def lengths(self) -> NDArray[Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Document:
    """The ids of one row, and to which text of the row each belongs, where there are several."""

    ids: Ints
    segments: Ints | None = None
    context: int | None = None
    "Places that what is made of it may take; not given: one less than it has tokens."

    @property
    def room(self) -> int:
        return len(self.ids) - 1 if self.context is None else self.context


class DocumentChunks:
    """Each document on its own, long ones in several rows."""

    def __init__(self, part: TokenSplit, *, context: int, start: int, stop: int) -> None:
        self._part = part
        self._context = context
        self._start = start
        self._stop = stop
        targets = np.asarray(part.lengths, dtype=np.int64) + 1  # its tokens and <stop>
        rows = -(-targets // context)
        self._first_row = np.concatenate(([0], np.cumsum(rows)))
        self.lengths = np.full(self._first_row[-1], context + 1, dtype=np.int64)
        "Tokens of each row."
        self.lengths[self._first_row[1:] - 1] = targets - (rows - 1) * context + 1

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> Document:
        row = _checked(row, len(self))
        document = self.document_of(row)
        begin = (row - int(self._first_row[document])) * self._context
        ids = np.empty(self.lengths[row], dtype=np.int64)
        _fill(ids, begin, self._part[document], start=self._start, stop=self._stop)
        return Document(ids, context=self._context)

    def __iter__(self) -> Iterator[Document]:
        return (self[row] for row in range(len(self)))

    def document_of(self, row: int) -> int:
        """Which document of the part a row was cut from."""
        return int(np.searchsorted(self._first_row, row, side="right")) - 1


class PackedBlocks:
    """All documents end to end, in rows of context + 1; a row's segments tell them apart."""

    def __init__(self, part: TokenSplit, *, context: int, start: int, stop: int) -> None:
        self._part = part
        self._context = context
        self._start = start
        self._stop = stop
        count = len(part)
        # Document d begins at begins[d] of the stream: two specials for each one before it.
        self._begins = np.asarray(part.offsets, dtype=np.int64) + 2 * np.arange(count + 1)
        tokens = int(self._begins[-1])
        if tokens < context + 1:
            raise UserError(
                f"{tokens:,} tokens where one block of model.context = {context} is needed",
                topic="corpus",
                hint="Lower model.context or give more text.",
            )
        self._count = (tokens - 1) // context
        self.dropped_tokens = tokens - (self._count * context + 1)
        "Tokens at the end that do not fill a block, and are never read."

    def __len__(self) -> int:
        return self._count

    @property
    def lengths(self) -> Ints:
        return np.full(self._count, self._context + 1, dtype=np.int64)

    def __getitem__(self, row: int) -> Document:
        begin = _checked(row, len(self)) * self._context
        end = begin + self._context + 1
        ids = np.empty(end - begin, dtype=np.int64)
        segments = np.empty(end - begin, dtype=np.int64)
        first, last = np.searchsorted(self._begins, (begin, end - 1), side="right") - 1
        for segment, document in enumerate(range(first, last + 1)):
            opens, closes = self._begins[document : document + 2]
            here = slice(max(opens - begin, 0), min(closes, end) - begin)
            _fill(
                ids[here],
                max(begin - opens, 0),
                self._part[document],
                start=self._start,
                stop=self._stop,
            )
            segments[here] = segment
        return Document(ids, segments, self._context)

    def __iter__(self) -> Iterator[Document]:
        return (self[row] for row in range(len(self)))


def _fill(out: Ints, begin: int, document: NDArray[Any], *, start: int, stop: int) -> None:
    """Write into `out` the tokens of `<start> document <stop>` from place `begin` on."""
    inner = out
    if begin == 0:
        out[0] = start
        inner = inner[1:]
    if begin + len(out) == len(document) + 2:
        out[-1] = stop
        inner = inner[:-1]
    offset = max(begin - 1, 0)
    inner[:] = document[offset : offset + len(inner)]


def _checked(row: int, count: int) -> int:
    if not -count <= row < count:
        raise IndexError(f"row {row} of {count}")
    return row % count
