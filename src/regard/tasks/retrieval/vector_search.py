"""Exact vector search: the nearest documents of each query, and the softmax denominator over all.

    p(d | q) = exp(q · d / τ) / Σ_j exp(q · d_j / τ)        over the whole collection

Every document is compared, a block at a time (`ops/knn.py`).
Shapes: q queries, n documents, w width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.ops.knn import Floats, Ids, knn

DEPTH = 100
"Documents that a search returns; lower ranks count as not found."
QUERY_BLOCK = 256
DOCUMENT_BLOCK = 16_384

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class SearchResult:
    """The documents found for a query, the nearest first."""

    indices: Ids
    "Indices of the documents in the collection."
    cosines: Floats
    log_denominator: float
    "log Σ_j exp(q · d_j / τ)"


def search(queries: Vectors, documents: Vectors, *, temperature: float) -> list[SearchResult]:
    """The `DEPTH` nearest documents of each query; (q,w) and (n,w), rows of norm 1."""
    neighbours = knn(queries, documents, DEPTH)
    denominators = log_denominators(queries, documents, temperature=temperature)
    results = zip(neighbours.ids, neighbours.scores, denominators, strict=True)
    return [SearchResult(indices, cosines, float(log)) for indices, cosines, log in results]


def log_denominators(queries: Vectors, documents: Vectors, *, temperature: float) -> Floats:
    """(q): log Σ_j exp(q · d_j / τ), block by block, so that memory holds the scores of one."""
    logs = np.full(len(queries), -np.inf)
    for first in range(0, len(queries), QUERY_BLOCK):
        rows = slice(first, first + QUERY_BLOCK)
        for start in range(0, len(documents), DOCUMENT_BLOCK):
            block = documents[start : start + DOCUMENT_BLOCK]
            scores = (queries[rows] @ block.T).astype(np.float64) / temperature
            logs[rows] = np.logaddexp(logs[rows], np.logaddexp.reduce(scores, axis=1))
    return logs
