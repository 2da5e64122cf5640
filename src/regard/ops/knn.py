"""Exact k-nearest-neighbour search by inner product, in blocks.

    the k largest q · v_j of each query q, ties in the order of j

Blocks of float32 products find the candidates; only these are computed again in float64 and sorted,
so that neither the block size nor the rounding of a fast matmul decides. A float32 product of width
w is at most (w + 4) · 2⁻²⁴ · |q| |v| from the exact one (Higham, 2002, section 3.1; 4 covers the
casts to float32 and float64 itself): no neighbour is lost.

Shapes: q queries, n vectors, w width, k neighbours. Memory: one block of vectors and its scores,
for any n; `vectors` may be a memory map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError

Vectors: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Ids: TypeAlias = NDArray[np.int64]

QUERY_BLOCK = 256
PAIR_BLOCK = 4_096
"Pairs of a query and a vector that are held in float64."
SMALLEST_NORMAL = 2.0**-126
"Of float32; below it the relative error is unbounded."


@dataclass(frozen=True)
class Neighbours:
    """The nearest vectors of each query, nearest first."""

    ids: Ids
    "(q,k)"
    scores: Floats
    "(q,k)"


def knn(queries: Vectors, vectors: Vectors, k: int, *, block: int = 16_384) -> Neighbours:
    """(q,w), (n,w) -> the k nearest vectors of each query; all n where there are fewer.

    For cosine similarity, normalise both to length 1."""
    _check_inputs(queries, vectors, k=k, block=block)
    starts = range(0, len(queries), QUERY_BLOCK)
    best = [_no_neighbours(len(queries[start : start + QUERY_BLOCK])) for start in starts]
    for first in range(0, len(vectors), block):
        block_vectors = vectors[first : first + block]  # read once, for all queries
        rounded = np.asarray(block_vectors, np.float32)
        squares = np.einsum("nw,nw->n", rounded, rounded, dtype=np.float64)
        max_norm = float(np.sqrt(squares.max()))
        for index, start in enumerate(starts):
            some = queries[start : start + QUERY_BLOCK]
            scores = _scores(some, rounded, first)
            error = _rounding_error(some, max_norm)
            rows, columns = _candidates(scores, best[index], error, k=k)
            exact = _exact_scores(some, block_vectors, rows, columns)
            best[index] = _merge(best[index], rows, columns + first, exact, k=k)
    shape = (len(queries), min(k, len(vectors)))  # also where there is nothing to concatenate
    ids = np.concatenate([np.empty(0, np.int64), *(nearest.ids.ravel() for nearest in best)])
    all_scores = np.concatenate([np.empty(0), *(nearest.scores.ravel() for nearest in best)])
    return Neighbours(ids.reshape(shape), all_scores.reshape(shape))


def _check_inputs(queries: Vectors, vectors: Vectors, *, k: int, block: int) -> None:
    if queries.ndim != 2 or vectors.ndim != 2 or queries.shape[1] != vectors.shape[1]:
        raise UserError(
            f"queries of shape {queries.shape} do not match vectors of shape {vectors.shape}",
            topic="search",
            hint="Give two tables of rows of the same width.",
        )
    if k < 1 or block < 1:
        what = f"k = {k} and block = {block} cannot be used"
        raise UserError(what, topic="search", hint="Take 1 or more.")


def _scores(queries: Vectors, rounded: NDArray[np.float32], first: int) -> NDArray[np.float32]:
    """All products with a block of vectors whose first has the id `first`, (q,n)."""
    with np.errstate(over="ignore", invalid="ignore"):  # reported below, with the id
        scores = np.asarray(queries, np.float32) @ rounded.T
    if not np.isfinite(scores).all():
        vector_id = first + int(np.nonzero(~np.isfinite(scores).all(axis=0))[0][0])
        raise UserError(
            f"vector {vector_id} and a query have no finite product",
            topic="search",
            hint="Look for NaN or very large values in both; normalise them to length 1.",
        )
    return scores


def _no_neighbours(queries: int) -> Neighbours:
    return Neighbours(np.empty((queries, 0), np.int64), np.empty((queries, 0), np.float64))


def _rounding_error(queries: Vectors, norm: float) -> Floats:
    """Bound on the error of a float32 product of each query with a vector of this norm, (q,)."""
    width = queries.shape[1]
    query_norms = np.linalg.norm(np.asarray(queries, np.float64), axis=1)
    relative = 1.01 * (width + 4) * 2.0**-24 * query_norms * norm
    return np.asarray(relative + width * SMALLEST_NORMAL * (1 + query_norms + norm))


def _candidates(
    scores: NDArray[np.float32], best: Neighbours, error: Floats, *, k: int
) -> tuple[Ids, Ids]:
    """Rows and columns of the scores that could be among the k best of their query."""
    threshold = np.full(len(scores), -np.inf)
    if best.ids.shape[1] == k:
        threshold = best.scores[:, -1] - error
    # Where the threshold passes many, the k-th best of the block gives a higher one.
    crowded = np.nonzero((scores >= threshold[:, None]).sum(axis=1) > 2 * k)[0]
    if len(crowded):
        kth = scores.shape[1] - k
        kth_scores = np.partition(scores[crowded], kth, axis=1)[:, kth]
        threshold[crowded] = np.maximum(threshold[crowded], kth_scores - 2 * error[crowded])
    rows, columns = np.nonzero(scores >= threshold[:, None])
    return rows, columns


def _exact_scores(queries: Vectors, vectors: Vectors, rows: Ids, columns: Ids) -> Floats:
    """q · v of the pairs in float64, each computed alone: independent of the block size."""
    chunks = [np.empty(0)]
    for start in range(0, len(rows), PAIR_BLOCK):
        pairs = slice(start, start + PAIR_BLOCK)
        left = np.asarray(queries[rows[pairs]], np.float64)
        chunks.append((left * vectors[columns[pairs]]).sum(axis=1))
    return np.concatenate(chunks)


def _merge(best: Neighbours, rows: Ids, ids: Ids, scores: Floats, *, k: int) -> Neighbours:
    """The k best of those so far and the new ones; every query has the same number of them."""
    queries, count = best.ids.shape
    row = np.concatenate([np.repeat(np.arange(queries), count), rows])
    ids = np.concatenate([best.ids.ravel(), ids])
    scores = np.concatenate([best.scores.ravel(), scores])
    order = np.lexsort((ids, -scores, row))
    row, ids, scores = row[order], ids[order], scores[order]
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    kept = rank < k
    return Neighbours(ids[kept].reshape(queries, -1), scores[kept].reshape(queries, -1))
