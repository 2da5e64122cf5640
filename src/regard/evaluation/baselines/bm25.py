"""BM25: documents ranked by the query's words in them, rare words first, long documents damped.

    score(q, D) = Σ_w∈q  idf(w) · f(w,D) · (k₁ + 1) / (f(w,D) + k₁ · (1 − b + b · |D| / mean |D|))
    idf(w) = ln(1 + (N − n(w) + ½) / (n(w) + ½))

f(w,D) is how often w is in D, n(w) in how many of the N documents it is. A word that the query has
twice counts twice. Robertson and Zaragoza, 2009; the idf that is never below 0 is Lucene's.
Every document with a word of the query is scored: the ranking is exact.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from regard.core.errors import UserError

Words: TypeAlias = Callable[[str], list[str]]

WORD = re.compile(r"\w+")
SCORES_AT_ONCE = 4_000_000
"Query × document scores held at a time."


def plain_words(text: str) -> list[str]:
    """Lower-case runs of letters and digits."""
    return WORD.findall(text.lower())


@dataclass(frozen=True)
class RankedDocuments:
    """Documents for one query, the best first, equal scores in the documents' order."""

    ids: NDArray[np.int64]
    "Places in the list of documents; only documents that share a word with the query."
    scores: NDArray[np.float64]


class BM25:
    """An index over documents."""

    def __init__(
        self,
        documents: Iterable[str],
        *,
        k1: float = 1.2,
        b: float = 0.75,
        words: Words = plain_words,
    ) -> None:
        if k1 < 0 or not 0 <= b <= 1:
            what = f"k1 = {k1:g} and b = {b:g} cannot be used"
            raise UserError(what, topic="BM25", hint="Take k1 of 0 or more and b from 0 to 1.")
        self.k1, self.b, self.words = k1, b, words
        places: dict[str, int] = {}
        counts = _counts(map(words, documents), lambda word: places.setdefault(word, len(places)))
        if not counts.shape[0]:
            raise UserError("there is no document to rank", topic="BM25", hint="Give at least one.")
        self.places = places
        self.weights = _weighed(counts, k1=k1, b=b)

    @property
    def label(self) -> str:
        words = getattr(self.words, "__name__", "own words").replace("_", " ")
        return f"BM25 (k1 = {self.k1:g}, b = {self.b:g}, {words})"

    def rank(self, queries: Sequence[str], k: int) -> list[RankedDocuments]:
        """The `k` best documents for each query, fewer where fewer share a word with it."""
        if k < 1:
            raise UserError(f"k = {k} cannot be used", topic="BM25", hint="Take 1 or more.")
        documents = self.weights.shape[1]
        at_once = max(1, SCORES_AT_ONCE // documents)
        found: list[RankedDocuments] = []
        for start in range(0, len(queries), at_once):
            some = map(self.words, queries[start : start + at_once])
            asked = _counts(some, self.places.get, columns=len(self.places))
            scores = csr_array(asked @ self.weights)
            borders = zip(scores.indptr[:-1], scores.indptr[1:], strict=True)
            found += [_best(scores.indices[i:j], scores.data[i:j], k) for i, j in borders]
        return found


def _counts(
    texts: Iterable[list[str]], place_of: Callable[[str], int | None], columns: int | None = None
) -> csr_array:
    """How often each text (a row) has each word (a column); words without a place are left out."""
    starts, places, times = array("q", [0]), array("q"), array("d")
    for words in texts:
        for word, count in Counter(words).items():
            if (place := place_of(word)) is not None:
                places.append(place)
                times.append(count)
        starts.append(len(places))
    width = max(places, default=-1) + 1 if columns is None else columns
    parts = (np.asarray(times), np.asarray(places), np.asarray(starts))
    return csr_array(parts, shape=(len(starts) - 1, width))


def _weighed(counts: csr_array, *, k1: float, b: float) -> csr_array:
    """Word × document: what each word of a query adds to a document's score."""
    lengths = counts.sum(axis=1)
    mean = lengths.mean() or 1.0  # documents without a word have nothing to be weighed
    n = counts.shape[0]
    within = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((n - within + 0.5) / (within + 0.5))
    damping = np.repeat(k1 * (1 - b + b * lengths / mean), np.diff(counts.indptr))
    grown = idf[counts.indices] * counts.data * (k1 + 1) / (counts.data + damping)
    return csr_array(csr_array((grown, counts.indices, counts.indptr), shape=counts.shape).T)


def _best(ids: NDArray[Any], scores: NDArray[np.float64], k: int) -> RankedDocuments:
    if len(scores) > k:  # sorting is for the few that can be among the best
        enough = scores >= np.partition(scores, -k)[-k]
        ids, scores = ids[enough], scores[enough]
    order = np.lexsort((ids, -scores))[:k]
    return RankedDocuments(ids[order].astype(np.int64), scores[order])
