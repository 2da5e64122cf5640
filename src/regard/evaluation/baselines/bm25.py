"""BM25 ranking: term frequency saturated and length-normalised, weighted by inverse document
frequency.

    score(q, D) = Σ_w∈q  idf(w) · f(w,D) · (k₁ + 1) / (f(w,D) + k₁ · (1 − b + b · |D| / mean |D|))
    idf(w) = ln(1 + (N − n(w) + ½) / (n(w) + ½))

f(w,D) is the frequency of w in D, n(w) the number of the N documents that contain w. A word that
occurs twice in the query counts twice. Robertson and Zaragoza, 2009; the non-negative idf is
Lucene's. Every document with a word of the query is scored: the ranking is exact.
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
from regard.core.scripts import UNSPACED

SplitWords: TypeAlias = Callable[[str], list[str]]

WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
SCORES_AT_ONCE = 4_000_000
"Maximum query × document scores held at once."


def plain_words(text: str) -> list[str]:
    """Lower-case runs of letters and digits; where words have no spaces between, each character."""
    return WORD.findall(text.lower())


@dataclass(frozen=True)
class RankedDocuments:
    """Documents found for one query, best first; ties in the order of the documents."""

    ids: NDArray[np.int64]
    "Indices of documents that share a word with the query."
    scores: NDArray[np.float64]


class BM25:
    """An inverted index over documents."""

    def __init__(
        self,
        documents: Iterable[str],
        *,
        k1: float = 1.2,
        b: float = 0.75,
        words: SplitWords = plain_words,
    ) -> None:
        if k1 < 0 or not 0 <= b <= 1:
            what = f"k1 = {k1:g} and b = {b:g} cannot be used"
            raise UserError(what, topic="BM25", hint="Give k1 of 0 or more and b from 0 to 1.")
        self.k1, self.b, self.words = k1, b, words
        ids: dict[str, int] = {}
        counts = _term_counts(map(words, documents), lambda word: ids.setdefault(word, len(ids)))
        if not counts.shape[0]:
            raise UserError("there is no document to rank", topic="BM25", hint="Give at least one.")
        self.word_ids = ids
        self.weights = _term_weights(counts, k1=k1, b=b)

    @property
    def label(self) -> str:
        words = getattr(self.words, "__name__", "own words").replace("_", " ")
        return f"BM25 (k1 = {self.k1:g}, b = {self.b:g}, {words})"

    def rank(self, queries: Sequence[str], k: int) -> list[RankedDocuments]:
        """The `k` best documents of each query; fewer where fewer share a word with it."""
        if k < 1:
            raise UserError(f"k = {k} cannot be used", topic="BM25", hint="Give 1 or more.")
        documents = self.weights.shape[1]
        chunk_size = max(1, SCORES_AT_ONCE // documents)
        results: list[RankedDocuments] = []
        for start in range(0, len(queries), chunk_size):
            chunk = map(self.words, queries[start : start + chunk_size])
            query_counts = _term_counts(chunk, self.word_ids.get, columns=len(self.word_ids))
            scores = csr_array(query_counts @ self.weights)
            slices = zip(scores.indptr[:-1], scores.indptr[1:], strict=True)
            results += [_top_k(scores.indices[i:j], scores.data[i:j], k) for i, j in slices]
        return results


def _term_counts(
    texts: Iterable[list[str]], word_id: Callable[[str], int | None], columns: int | None = None
) -> csr_array:
    """Text × word counts; words without an id are left out."""
    starts, ids, counts = array("q", [0]), array("q"), array("d")
    for words in texts:
        for word, count in Counter(words).items():
            if (column := word_id(word)) is not None:
                ids.append(column)
                counts.append(count)
        starts.append(len(ids))
    width = max(ids, default=-1) + 1 if columns is None else columns
    data = (np.asarray(counts), np.asarray(ids), np.asarray(starts))
    return csr_array(data, shape=(len(starts) - 1, width))


def _term_weights(counts: csr_array, *, k1: float, b: float) -> csr_array:
    """Word × document: what each occurrence of a word in a query adds to a document's score."""
    lengths = counts.sum(axis=1)
    mean = lengths.mean() or 1.0  # 0 where no document has a word
    n = counts.shape[0]
    document_frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((n - document_frequency + 0.5) / (document_frequency + 0.5))
    length_norm = np.repeat(k1 * (1 - b + b * lengths / mean), np.diff(counts.indptr))
    weights = idf[counts.indices] * counts.data * (k1 + 1) / (counts.data + length_norm)
    return csr_array(csr_array((weights, counts.indices, counts.indptr), shape=counts.shape).T)


def _top_k(ids: NDArray[Any], scores: NDArray[np.float64], k: int) -> RankedDocuments:
    if len(scores) > k:  # sort only candidates for the top k
        is_candidate = scores >= np.partition(scores, -k)[-k]
        ids, scores = ids[is_candidate], scores[is_candidate]
    order = np.lexsort((ids, -scores))[:k]
    return RankedDocuments(ids[order].astype(np.int64), scores[order])
