"""Search for held-out rows that stand in training, exactly or nearly.

The held-out splits are indexed and training is streamed past them once, so memory depends on the
held-out splits alone. A near pair is named only if its token edit similarity, computed exactly, is
0.8 or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from regard.core.progress import OnProgress
from regard.data.grouping import grouped_by_size
from regard.data.overlap.normalise import normalise
from regard.data.overlap.segment_index import SegmentIndex
from regard.data.overlap.sequences import Ints, Sequences
from regard.data.overlap.similarity import (
    MIN_WORDS,
    edit_distances,
    max_edits,
    similarity_of,
)

MAX_WORDS_BY_CHARACTERS = MIN_WORDS + 4
"A text under 8 words may be near to a text of 8 and more, but not of many more."
MAX_WORDS = 1 << 13
"Longer documents are compared word for word alone: the time of an edit distance is quadratic."
LONG = 64
"Words from which on a sequence needs a larger signature."
BATCH_CHARACTERS = 1 << 20
BATCH_ROWS = 1 << 12
LOOKED_UP = (1 << 12, 512)
"Held-out texts that a training row may look at: of the first rows, and of later ones."
LOOKED_UP_IN_ALL = 1 << 27
"From how many on the limit falls, so that time stays proportional to the rows."


ROUNDS = (0, 4, 32, 256, 1 << 62)
"Pairs of an item are compared in rounds that end at these ranks; each knows the best before it."
ROUNDING = 1e-6


@dataclass(frozen=True)
class Overlap:
    """The training row that is most similar to a held-out item."""

    item: int
    row: int
    kind: Literal["exact", "near"]
    similarity: float


def find_overlaps(
    train: Iterable[str],
    held_out: Mapping[str, Sequence[str]],
    *,
    on_progress: OnProgress | None = None,
) -> dict[str, list[Overlap]]:
    """For each held-out split, its items that stand in training, each with its best row.

    An empty text overlaps with nothing. Where dozens of rows are similar to an item (one template),
    one of the most similar is named, not always the very best.
    """
    total = len(train) if isinstance(train, Sized) else None
    search = _Search(held_out)
    done = 0
    for batch in _batches(train):
        search.add_rows(batch, first_row=done)
        done += len(batch)
        if on_progress:
            on_progress(done, total)
    return search.overlaps(held_out)


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    size = BATCH_CHARACTERS // BATCH_ROWS
    return grouped_by_size(texts, lambda text: max(len(text), size), total=BATCH_CHARACTERS)


class _Search:
    """The distinct held-out texts, and the best training row of each so far."""

    def __init__(self, held_out: Mapping[str, Sequence[str]]) -> None:
        self.numbers: dict[str, int] = {}
        self.number_of = {
            split: [self._number(normalise(text)) for text in texts]
            for split, texts in held_out.items()
        }
        self.similarity = np.zeros(len(self.numbers))
        self.row = np.full(len(self.numbers), -1)
        # 0 in an empty text, which is in no index.
        self.word_counts = np.array([text.count(" ") + bool(text) for text in self.numbers])
        texts = list(self.numbers)
        short = np.flatnonzero(
            (self.word_counts > 0) & (self.word_counts < MAX_WORDS_BY_CHARACTERS)
        )
        self.by_characters = (
            _PartIndex.of(short, characters([texts[i] for i in short]), gram=2, bits=128)
            if len(short)
            else None
        )
        self.vocabulary: dict[str, int] = {}
        self.by_words = []
        for low, high, bits in ((MIN_WORDS, LONG, 128), (LONG, MAX_WORDS, 1024)):
            some = np.flatnonzero((self.word_counts >= low) & (self.word_counts < high))
            if len(some):
                # Words of one text at a time: the strings of all would take gigabytes.
                words = (word for i in some for word in texts[i].split())
                ids = np.fromiter(map(self._learn, words), np.uint64)
                items = Sequences.of(ids, self.word_counts[some])
                self.by_words.append(_PartIndex.of(some, items, gram=1, bits=bits))

    def _number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    def _learn(self, word: str) -> int:
        return self.vocabulary.setdefault(word, len(self.vocabulary) + 1)

    def _encode(self, texts: Sequence[Sequence[str]]) -> Sequences:
        """Ids of words; 0 is a word that no held-out text has."""
        find = self.vocabulary.get
        ids = np.fromiter((find(word, 0) for words in texts for word in words), np.uint64)
        return Sequences.of(ids, [len(words) for words in texts])

    def add_rows(self, texts: list[str], *, first_row: int) -> None:
        rows: list[int] = []
        words: list[list[str]] = []
        for row, text in enumerate(map(normalise, texts), start=first_row):
            number = self.numbers.get(text)
            if not text or (number is not None and self.similarity[number] == 1):
                continue  # this very text was searched for before
            if number is not None:
                self.similarity[number], self.row[number] = 1, row
            rows.append(row)
            words.append(text.split(" "))
        first, later = LOOKED_UP
        limit = min(first, max(later, LOOKED_UP_IN_ALL // (first_row + BATCH_ROWS)))
        long = [i for i, each in enumerate(words) if MIN_WORDS <= len(each) < MAX_WORDS]
        if self.by_words and long:
            encoded = self._encode([words[i] for i in long])
            for index in self.by_words:
                self._match(index, encoded, np.array([rows[i] for i in long]), limit=limit)
        short = [i for i, each in enumerate(words) if len(each) < MAX_WORDS_BY_CHARACTERS]
        if self.by_characters and short:
            encoded = characters([" ".join(words[i]) for i in short])
            counts = np.array([len(words[i]) for i in short])
            numbers = np.array([rows[i] for i in short])
            self._match(self.by_characters, encoded, numbers, counts, limit=limit)

    def _match(
        self,
        index: _PartIndex,
        rows: Sequences,
        row_numbers: Ints,
        words: Ints | None = None,
        *,
        limit: int,
    ) -> None:
        """Note the rows that are nearer to an item than its best so far."""
        row, item = index.segments.candidates(rows, self.similarity[index.numbers], limit=limit)
        if words is not None:
            by_characters = np.minimum(words[row], self.word_counts[index.numbers[item]])
            row, item = row[by_characters < MIN_WORDS], item[by_characters < MIN_WORDS]
        rank = _ranks(item)
        for first, end in pairwise(ROUNDS):
            some = np.flatnonzero((rank >= first) & (rank < end))
            if len(some):
                self._note(index, rows, row_numbers, row[some], item[some])

    def _note(
        self, index: _PartIndex, rows: Sequences, row_numbers: Ints, row: Ints, item: Ints
    ) -> None:
        """Of these pairs, those that are nearer than the item's best so far."""
        longer = np.maximum(rows.lengths[row], index.segments.items.lengths[item])
        best = self.similarity[index.numbers[item]]
        # Of documents that share most of a long text, all would be near: only a nearer one counts.
        edits = np.minimum(max_edits(longer), (longer * (1 - best) + ROUNDING).astype(np.int64))
        distance = edit_distances(rows, index.segments.items, row, item, within=edits)
        near = np.flatnonzero(distance <= edits)
        similarity = similarity_of(distance, longer)
        for k in near[np.lexsort((row[near], -similarity[near]))]:
            number = index.numbers[item[k]]
            if similarity[k] > self.similarity[number]:
                self.similarity[number] = similarity[k]
                self.row[number] = row_numbers[row[k]]

    def overlaps(self, splits: Iterable[str]) -> dict[str, list[Overlap]]:
        return {
            split: [
                Overlap(
                    item,
                    int(self.row[number]),
                    "exact" if self.similarity[number] == 1 else "near",
                    float(self.similarity[number]),
                )
                for item, number in enumerate(self.number_of[split])
                if self.similarity[number] > 0
            ]
            for split in splits
        }


@dataclass(frozen=True)
class _PartIndex:
    """The held-out texts of one length, by their numbers among all."""

    numbers: Ints
    segments: SegmentIndex

    @staticmethod
    def of(numbers: Ints, items: Sequences, *, gram: int, bits: int) -> _PartIndex:
        return _PartIndex(numbers, SegmentIndex(items, gram=gram, signature_bits=bits))


def _ranks(items: Ints) -> Ints:
    """For each element, how many before it are equal to it."""
    order = np.argsort(items, kind="stable")
    ordered = items[order]
    ranks = np.empty(len(items), np.int64)
    ranks[order] = np.arange(len(items)) - np.searchsorted(ordered, ordered)
    return ranks


def characters(texts: Sequence[str]) -> Sequences:
    """Ids of characters: code points, counted from 1."""
    flat = "".join(texts).encode("utf-32-le", "surrogatepass")
    ids = np.frombuffer(flat, np.uint32).astype(np.uint64) + np.uint64(1)
    return Sequences.of(ids, [len(text) for text in texts])
