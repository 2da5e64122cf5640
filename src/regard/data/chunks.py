"""Training rows of a language model, cut from the token cache on demand.

`DocumentChunks` keeps documents separate; `PackedBlocks` does sequence packing: it concatenates all
documents and cuts blocks of one length. Both cut `<start> document <stop>` into rows of at most
context + 1 tokens that overlap by one, because a row of n tokens gives n − 1 predictions: every
token after the first is a target exactly once.

    context 3, chunks:  <start> a b c | c d e <stop>        targets  a b c | d e <stop>
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.data.token_cache.cache import CachedSplit

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Document:
    """The token ids of one row and, if it holds several texts, the segment of each token."""

    ids: Ints
    segments: Ints | None = None
    context: int | None = None
    "Maximum length of an example built from it; by default its number of tokens − 1."

    @property
    def max_length(self) -> int:
        return len(self.ids) - 1 if self.context is None else self.context


class TrainingRows(ABC):
    """The rows of a cached split; each is cut when it is asked for."""

    lengths: Ints
    "Number of tokens of each row."

    def __init__(self, split: CachedSplit, *, context: int, start: int, stop: int) -> None:
        self._split = split
        self._context = context
        self._start = start
        self._stop = stop

    @abstractmethod
    def _cut(self, row: int) -> Document: ...

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> Document:
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        return self._cut(row % len(self))

    def __iter__(self) -> Iterator[Document]:
        return map(self._cut, range(len(self)))

    def _fill(self, out: Ints, begin: int, document: int) -> None:
        """Write into `out` the tokens of `<start> document <stop>` from index `begin` on."""
        ids = self._split[document]
        inner = out
        if begin == 0:
            out[0] = self._start
            inner = inner[1:]
        if begin + len(out) == len(ids) + 2:
            out[-1] = self._stop
            inner = inner[:-1]
        offset = max(begin - 1, 0)
        inner[:] = ids[offset : offset + len(inner)]


class DocumentChunks(TrainingRows):
    """One document per row; a document longer than the context gives several rows."""

    def __init__(self, split: CachedSplit, *, context: int, start: int, stop: int) -> None:
        super().__init__(split, context=context, start=start, stop=stop)
        targets = np.asarray(split.lengths, dtype=np.int64) + 1  # its tokens and <stop>
        rows = -(-targets // context)
        self._first_row = np.concatenate(([0], np.cumsum(rows)))
        self.lengths = np.full(self._first_row[-1], context + 1, dtype=np.int64)
        self.lengths[self._first_row[1:] - 1] = targets - (rows - 1) * context + 1

    def _cut(self, row: int) -> Document:
        document = self.document_of(row)
        begin = (row - int(self._first_row[document])) * self._context
        ids = np.empty(self.lengths[row], dtype=np.int64)
        self._fill(ids, begin, document)
        return Document(ids, context=self._context)

    def document_of(self, row: int) -> int:
        """Index of the document that a row was cut from."""
        return int(np.searchsorted(self._first_row, row, side="right")) - 1


class PackedBlocks(TrainingRows):
    """Packing: all documents concatenated, in blocks of context + 1; segments number them.

    Tokens at the end that do not fill a block are never used.
    """

    def __init__(self, split: CachedSplit, *, context: int, start: int, stop: int) -> None:
        super().__init__(split, context=context, start=start, stop=stop)
        # Document d starts at starts[d] of the concatenation: two specials for each one before.
        self._starts = np.asarray(split.offsets, dtype=np.int64) + 2 * np.arange(len(split) + 1)
        tokens = int(self._starts[-1])
        if tokens < context + 1:
            raise UserError(
                f"{tokens:,} tokens do not fill one block of model.context = {context}",
                topic="corpus",
                hint="Lower model.context or give more text.",
            )
        self.lengths = np.full((tokens - 1) // context, context + 1, dtype=np.int64)

    def _cut(self, row: int) -> Document:
        begin = row * self._context
        end = begin + self._context + 1
        ids, segments = np.empty((2, end - begin), dtype=np.int64)
        first, last = np.searchsorted(self._starts, (begin, end - 1), side="right") - 1
        for segment, document in enumerate(range(first, last + 1)):
            opens, closes = self._starts[document : document + 2]
            here = slice(max(opens - begin, 0), min(closes, end) - begin)
            self._fill(ids[here], max(begin - opens, 0), document)
            segments[here] = segment
        return Document(ids, segments, self._context)
