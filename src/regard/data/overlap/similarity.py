"""Token edit similarity: 1 − Levenshtein distance / length of the longer.

Tokens are normalised words; where one of the texts has fewer than eight, characters. *Near* is a
similarity of 0.8 or more.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.overlap.normalise import normalise
from regard.data.overlap.sequences import Ints, Sequences

MIN_WORDS = 8
"Texts with fewer words are compared by characters."
MIN_SIMILARITY = 0.8
MIN_LENGTH_FOR_BAGS = 256
"From which length on most pairs are refused before their table of distances is filled."
MAX_CELLS = 1 << 18
"Cells of the distance tables that are filled at once."
PADDING = (2**64 - 1, 2**64 - 2)
"Of the two sides: equal to no id and not to each other."


def text_similarity(first: str, second: str) -> float:
    """Similarity of two texts, by words, or by characters where one is short."""
    texts = normalise(first), normalise(second)
    words = tuple(text.split() for text in texts)
    if min(map(len, words)) < MIN_WORDS:
        return token_similarity(*texts)
    return token_similarity(*words)


def token_similarity(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """1 − edit distance / length of the longer; two empty sequences are equal."""
    longer = max(len(first), len(second))
    if not first or not second:
        return 1.0 if not longer else 0.0
    ids: dict[Hashable, int] = {}
    both = [ids.setdefault(token, len(ids)) for tokens in (first, second) for token in tokens]
    flat = Sequences.of(np.array(both, np.uint64), [len(first), len(second)])
    zero, one = np.array([0]), np.array([1])
    distance = edit_distances(flat, flat, zero, one, within=np.array([longer]))[0]
    return float(similarity_of(distance, longer))


def similarity_of(distance: Ints, longer: Ints | int) -> NDArray[np.float64]:
    # One division, correctly rounded: 12 / 15 equals 0.8, which 1 − 3 / 15 need not.
    similarity: NDArray[np.float64] = (longer - distance) / longer
    return similarity


def max_edits(longer: Ints) -> Ints:
    """The edits that leave a similarity of 0.8: a fifth of the longer sequence."""
    return longer // 5


def edit_distances(first: Sequences, second: Sequences, i: Ints, j: Ints, *, within: Ints) -> Ints:
    """Levenshtein distances of the pairs first[i], second[j].

    Exact where it is at most `within`; otherwise any number above that.
    """
    longer = np.maximum(first.lengths[i], second.lengths[j])
    distances = longer.copy()
    close = np.ones(len(i), bool)
    long = np.flatnonzero(longer >= MIN_LENGTH_FOR_BAGS)
    close[long] = _bag_distances(first, second, i[long], j[long]) <= within[long]
    order = np.flatnonzero(close)
    order = order[np.argsort(longer[order], kind="stable")]
    at = 0
    while at < len(order):
        # Pairs of similar length, so that little of the matrices is padding.
        cells = longer[order[at:]] + 2 * np.maximum.accumulate(within[order[at:]]) + 1
        fitting = cells * np.arange(1, len(cells) + 1) <= MAX_CELLS
        count = len(fitting) if fitting.all() else max(int(fitting.argmin()), 1)
        chunk = order[at : at + count]
        distances[chunk] = _banded(first, second, i[chunk], j[chunk], band=within[chunk].max())
        at += count
    return distances


def _bag_distances(first: Sequences, second: Sequences, i: Ints, j: Ints) -> Ints:
    """A lower bound of the edit distance: the tokens that the longer has and the other has not."""
    bags = (
        {each: np.unique(first.tokens(each), return_counts=True) for each in set(i.tolist())},
        {each: np.unique(second.tokens(each), return_counts=True) for each in set(j.tolist())},
    )
    distances = np.empty(len(i), np.int64)
    for pair, (a, b) in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
        (tokens, counts), (others, other_counts) = bags[0][a], bags[1][b]
        _, at, other_at = np.intersect1d(tokens, others, assume_unique=True, return_indices=True)
        shared = np.minimum(counts[at], other_counts[other_at]).sum()
        distances[pair] = max(first.lengths[a], second.lengths[b]) - shared
    return distances


def _banded(first: Sequences, second: Sequences, i: Ints, j: Ints, *, band: int) -> Ints:
    """Distances by diagonals −band … band of the table, for all pairs at once.

    Cell k of row r is the distance of the first r tokens of one and the first r + k − band of the
    other, less k: so an insertion costs nothing and the best one is a running minimum.
    """
    ends = first.lengths[i], second.lengths[j]
    rows = int(ends[0].max())
    left = first.padded(i, width=rows, padding=PADDING[0])
    width = 2 * band + 1
    right = second.padded(j, width=rows + width, padding=PADDING[1], left=band)
    far = np.int32(1 << 29)
    table = np.full((len(i), width + 1), far, np.int32)
    table[:, band:width] = -band  # r = 0: distance k − band, less k
    distances = np.full(len(i), far, np.int64)
    cell = ends[1] - ends[0] + band
    reachable = (cell >= 0) & (cell < width)
    for row in range(1, rows + 1):
        substituted = table[:, :width] + (
            left[:, row - 1, None] != right[:, row - 1 : row - 1 + width]
        )
        np.minimum(substituted, table[:, 1:] + 2, out=substituted)
        np.minimum.accumulate(substituted, axis=1, out=table[:, :width])
        ended = np.flatnonzero((ends[0] == row) & reachable)
        distances[ended] = table[ended, cell[ended]] + cell[ended]
    return distances
