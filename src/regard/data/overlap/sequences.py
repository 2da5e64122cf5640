"""Many sequences of ids in one flat array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]
Ints = NDArray[np.int64]
MIXERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
SHIFT = np.uint64(31)


@dataclass(frozen=True)
class Sequences:
    """Sequence i is ids[starts[i] : starts[i] + lengths[i]]; none is empty."""

    ids: Ids
    lengths: Ints
    starts: Ints

    @staticmethod
    def of(ids: Ids, lengths: Sequence[int] | Ints) -> Sequences:
        counts = np.array(lengths, np.int64)
        return Sequences(ids, counts, np.cumsum(counts) - counts)

    def __len__(self) -> int:
        return len(self.lengths)

    def tokens(self, which: int) -> Ids:
        return self.ids[self.starts[which] : self.starts[which] + self.lengths[which]]

    def part(self, first: int, end: int) -> Sequences:
        lengths, start = self.lengths[first:end], self.starts[first]
        return Sequences.of(self.ids[start : start + lengths.sum()], lengths)

    def padded(self, which: Ints, *, width: int, padding: int, left: int = 0) -> Ids:
        """A matrix of some of the sequences, each after `left` paddings."""
        column = np.arange(width) - left
        inside = (column >= 0) & (column < self.lengths[which, None])
        index = np.where(inside, self.starts[which, None] + column, 0)
        return np.where(inside, self.ids[index], np.uint64(padding))


def owners(lengths: Ints) -> tuple[Ints, Ints]:
    """For sequences of these lengths, laid end to end: whose each element is, and its position."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.cumsum(lengths) - lengths
    return owner, np.arange(len(owner)) - starts[owner]


def mix(ids: Ids) -> Ids:
    """A bijection of the 64-bit words that spreads small numbers over all bits; 0 stays 0."""
    mixed: Ids = ids * MIXERS[0]
    mixed ^= mixed >> SHIFT
    mixed *= MIXERS[1]
    mixed ^= mixed >> SHIFT
    return mixed


def gram_hashes(mixed: Ids, n: int) -> Ids:
    """A hash of the n ids at each position, across the ends of sequences too."""
    count = max(len(mixed) - n + 1, 0)
    hashes = np.full(count, n, np.uint64)
    for k in range(n):
        hashes *= MIXERS[0]  # wraps at 2⁶⁴, as intended
        hashes += mixed[k : k + count]
    return hashes
