"""Candidates for near pairs: an index of segments of the held-out sequences.

A sequence of m tokens that is similar to 0.8 or more to another has at most m / 4 edits. Cut into
one segment more than that, one segment stands in the other unchanged, and no further than the edits
from its own position. So a training row is looked up by its grams of 3 or 4 tokens, and nothing
that is near is missed.

Candidates are then refused by what costs little: their lengths, and signatures, a bit a token (or
pair of characters) that stands in the sequence: each bit that only one of them has is an edit.

Segments that many held-out sequences share ("click here to subscribe") would give every row
thousands of candidates. Each row has a limit of them, filled from its rarest segments, and of
those a smaller limit is confirmed, first the held-out sequences without a near row so far.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from regard.data.overlap.sequences import Ids, Ints, Sequences, gram_hashes, mix, owners
from regard.data.overlap.similarity import max_edits

LOOKED_UP_PER_CONFIRMED = 32
"Of the held-out sequences that a row may look at, how many have their edit distance computed."
LOOKED_UP_AT_ONCE = 1 << 20
TABLE_BITS = 22
BUILT_AT_ONCE = 1 << 16
"Sequences whose segments are made at once, so that little stands beside the index."


class SegmentIndex:
    def __init__(self, items: Sequences, *, gram: int, signature_bits: int) -> None:
        """`gram`: tokens that a bit of the signature stands for."""
        self.items, self.gram, self.signature_bits = items, gram, signature_bits
        self.shortest, self.longest = int(items.lengths.min()), int(items.lengths.max())
        self.sizes: set[int] = set()
        parts = [self._segments(items, first) for first in range(0, len(items), BUILT_AT_ONCE)]
        keys, item, position, self.signatures = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        del parts
        order = np.argsort(keys, kind="stable")
        self.item, self.position = item[order], position[order]
        self.keys, self.first, self.counts = np.unique(
            keys[order], return_index=True, return_counts=True
        )
        self.known = np.zeros(1 << TABLE_BITS, bool)
        self.known[_slot(self.keys)] = True

    def _segments(self, items: Sequences, first: int) -> tuple[Ids, Ints, Ints, Ids]:
        """Keys of the segments of some items, their items and positions; signatures."""
        some = items.part(first, first + BUILT_AT_ONCE)
        mixed = mix(some.ids)
        count = some.lengths // 4 + 1
        item, segment = owners(count)
        lengths = some.lengths[item]
        start = segment * lengths // count[item]
        size = (segment + 1) * lengths // count[item] - start
        keys = np.empty(len(item), np.uint64)
        for n in np.unique(size).tolist():
            self.sizes.add(n)
            chosen = size == n
            hashes = gram_hashes(mixed, n)
            keys[chosen] = hashes[some.starts[item[chosen]] + start[chosen]]
        return keys, item + first, start, self._sign(some, mixed)

    def candidates(
        self, rows: Sequences, similarity: NDArray[np.float64], *, limit: int
    ) -> tuple[Ints, Ints]:
        """Pairs (row, item) that may be near, and nearer than the item's `similarity` so far.

        A row looks at `limit` items.
        """
        fitting = (5 * rows.lengths >= 4 * self.shortest) & (4 * rows.lengths <= 5 * self.longest)
        if not fitting.any():
            return np.empty(0, np.int64), np.empty(0, np.int64)
        mixed = mix(rows.ids)
        signatures = self._sign(rows, mixed)
        found = [(np.empty(0, np.int64), np.empty(0))]
        for row, item in self._look_up(rows, mixed, fitting, limit=limit):
            longer = np.maximum(rows.lengths[row], self.items.lengths[item])
            least = self._least_edits(rows, signatures, row, item)
            bound = (longer - least) / longer
            promising = (least <= max_edits(longer)) & (bound > similarity[item])
            pair = row[promising] * len(self.items) + item[promising]
            found.append((pair, bound[promising]))
        # A pair may be in once for every segment that it shares.
        pairs, at = np.unique(np.concatenate([each for each, _ in found]), return_index=True)
        bound = np.concatenate([each for _, each in found])[at]
        row, item = np.divmod(pairs, len(self.items))
        order = np.lexsort((-bound, similarity[item] > 0, row))
        row, item = row[order], item[order]
        kept = np.arange(len(row)) - np.searchsorted(row, row) < limit // LOOKED_UP_PER_CONFIRMED
        return row[kept], item[kept]

    def _look_up(
        self, rows: Sequences, mixed: Ids, fitting: NDArray[np.bool_], *, limit: int
    ) -> Iterator[tuple[Ints, Ints]]:
        """Pairs that share a segment at about the same position and are of similar length."""
        owner, position = owners(rows.lengths)
        left = np.where(fitting, rows.lengths, 0)[owner] - position  # tokens to the row's end
        found_at, found_key = [], []
        for n in self.sizes:
            hashes = gram_hashes(mixed, n)
            at = np.flatnonzero(self.known[_slot(hashes)] & (left[: len(hashes)] >= n))
            key = np.searchsorted(self.keys, hashes[at])
            key[key == len(self.keys)] = 0
            same = self.keys[key] == hashes[at]
            found_at.append(at[same])
            found_key.append(key[same])
        at, key = np.concatenate(found_at), np.concatenate(found_key)
        order = np.lexsort((self.counts[key], owner[at]))
        at, key = at[order], key[order]
        counts, row = self.counts[key], owner[at]
        total = np.cumsum(counts)
        before = (total - counts)[np.searchsorted(row, row)]  # of the rows in front
        kept = total - before <= limit
        at, key, counts = at[kept], key[kept], counts[kept]
        total = np.cumsum(counts)
        first = 0
        while first < len(at):
            done = total[first - 1] if first else 0
            end = max(int(np.searchsorted(total, done + LOOKED_UP_AT_ONCE)), first + 1)
            which, nth = owners(counts[first:end])
            which += first
            posting = self.first[key[which]] + nth
            row, item = owner[at[which]], self.item[posting]
            lengths = rows.lengths[row], self.items.lengths[item]
            edits = max_edits(np.maximum(*lengths))
            shift = np.abs(self.position[posting] - position[at[which]])
            alike = (np.abs(lengths[0] - lengths[1]) <= edits) & (shift <= edits)
            yield row[alike], item[alike]
            first = end

    def _least_edits(self, rows: Sequences, signatures: Ids, row: Ints, item: Ints) -> Ints:
        """A lower bound of the edit distance, from lengths and signatures."""
        theirs, ours = signatures[row], self.signatures[item]
        missing = np.maximum(
            np.bitwise_count(theirs & ~ours).sum(axis=1, dtype=np.int64),
            np.bitwise_count(ours & ~theirs).sum(axis=1, dtype=np.int64),
        )
        # An edit changes as many grams as it is part of.
        edits = -(-missing // self.gram)
        least: Ints = np.maximum(edits, np.abs(rows.lengths[row] - self.items.lengths[item]))
        return least

    def _sign(self, sequences: Sequences, mixed: Ids) -> Ids:
        owner, position = owners(sequences.lengths)
        hashes = gram_hashes(mixed, self.gram)
        whole = (position < sequences.lengths[owner] - self.gram + 1)[: len(hashes)]
        bits = (hashes[whole] >> np.uint64(40)) % np.uint64(self.signature_bits)
        table = np.zeros((len(sequences), self.signature_bits), bool)
        table[owner[: len(hashes)][whole], bits.astype(np.int64)] = True
        signatures: Ids = np.packbits(table, axis=1).view(np.uint64)
        return signatures


def _slot(hashes: Ids) -> Ids:
    slots: Ids = hashes >> np.uint64(64 - TABLE_BITS)
    return slots
