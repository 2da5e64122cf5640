"""A search by vectors: the nearest documents of each query, and how the rest weighs against them.

    share of d for q = exp(q · d / τ) / Σ_j exp(q · d_j / τ)        over the whole collection

Every document is compared, a block at a time (`ops/knn.py`).
Shapes: q queries, n documents, w width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.ops.knn import Floats, Ids, knn

DEPTH = 100
"Documents that a search returns; what stands further down counts as not found."
QUERY_BLOCK = 256
DOCUMENT_BLOCK = 16_384

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class SearchResult:
    """What a query found, the nearest first."""

    places: Ids
    "Of documents in their collection."
    cosines: Floats
    log_denominator: float
    "log Σ_j exp(q · d_j / τ)"


def search(queries: Vectors, documents: Vectors, *, temperature: float) -> list[SearchResult]:
    """(q,w), (n,w), all of length 1."""
    best = knn(queries, documents, DEPTH)
    totals = log_denominators(queries, documents, temperature=temperature)
    return [
        SearchResult(places, cosines, float(total))
        for places, cosines, total in zip(best.ids, best.scores, totals, strict=True)
    ]


def log_denominators(queries: Vectors, documents: Vectors, *, temperature: float) -> Floats:
    """(q): how much all documents weigh for each query; scores of one block are held."""
    totals = np.full(len(queries), -np.inf)
    for first in range(0, len(queries), QUERY_BLOCK):
        some = slice(first, first + QUERY_BLOCK)
        for start in range(0, len(documents), DOCUMENT_BLOCK):
            block = documents[start : start + DOCUMENT_BLOCK]
            scores = (queries[some] @ block.T).astype(np.float64) / temperature
            totals[some] = np.logaddexp(totals[some], np.logaddexp.reduce(scores, axis=1))
    return totals
