"""Exact nearest vectors by inner product, a block at a time.

    the k largest q · v_j of each query q, equal ones in the order of j

A block of products in float32 finds those that could be among the best; only these are computed
once more in float64 and ordered, so that neither the size of a block nor the rounding of a fast
product decides. A float32 product of width w is at most (w + 4) · 2⁻²⁴ · |q| |v| from the true one
(Higham, 2002, section 3.1; 4 pays for narrowing and for float64 itself): nothing is lost.

Shapes: q queries, n vectors, w width, k found. Memory: a block of vectors and its scores, however
many vectors there are; `vectors` may be a memory map.
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

QUERIES_AT_ONCE = 256
PAIRS_AT_ONCE = 4_096
"Pairs of a query and a vector that are held in float64."
SMALLEST = 2.0**-126
"Below it float32 is no longer relatively exact."


@dataclass(frozen=True)
class Neighbours:
    """For each query its nearest vectors, the nearest first."""

    ids: Ids
    "(q,k)"
    scores: Floats
    "(q,k)"


def knn(queries: Vectors, vectors: Vectors, k: int, *, block: int = 16_384) -> Neighbours:
    """(q,w), (n,w) -> the k nearest vectors of each query; all n where there are fewer.

    For cosine similarity give both with length 1."""
    _refuse_unusable(queries, vectors, k=k, block=block)
    found = [
        _nothing(len(queries[start : start + QUERIES_AT_ONCE]))
        for start in range(0, len(queries), QUERIES_AT_ONCE)
    ]
    for first in range(0, len(vectors), block):
        some = vectors[first : first + block]  # read once, for all queries
        down_proj = np.asarray(some, np.float32)
        squares = np.einsum("nw,nw->n", down_proj, down_proj, dtype=np.float64)
        length = float(np.sqrt(squares.max()))
        for part, best in enumerate(found):
            asked = queries[part * QUERIES_AT_ONCE : (part + 1) * QUERIES_AT_ONCE]
            scores = _scores(asked, down_proj, first)
            rows, columns = _candidates(scores, best, _rounding(asked, length), k=k)
            products = _products(asked, some, rows, columns)
            found[part] = _merged(best, rows, columns + first, products, k=k)
    shape = (len(queries), min(k, len(vectors)))  # also where there is nothing to join
    ids = np.concatenate([np.empty(0, np.int64), *(one.ids.ravel() for one in found)])
    exact = np.concatenate([np.empty(0), *(one.scores.ravel() for one in found)])
    return Neighbours(ids.reshape(shape), exact.reshape(shape))


def _refuse_unusable(queries: Vectors, vectors: Vectors, *, k: int, block: int) -> None:
    if queries.ndim != 2 or vectors.ndim != 2 or queries.shape[1] != vectors.shape[1]:
        raise UserError(
            f"queries of shape {queries.shape} cannot be held against vectors of {vectors.shape}",
            topic="search",
            hint="Give two tables of rows of the same width.",
        )
    if k < 1 or block < 1:
        what = f"k = {k} and block = {block} cannot be used"
        raise UserError(what, topic="search", hint="Take 1 or more.")


def _scores(asked: Vectors, down_proj: NDArray[np.float32], first: int) -> NDArray[np.float32]:
    """All products of a block whose first vector is number `first`, (q,n)."""
    with np.errstate(over="ignore", invalid="ignore"):  # said below, with the number
        scores = np.asarray(asked, np.float32) @ down_proj.T
    if not np.isfinite(scores).all():
        number = first + int(np.nonzero(~np.isfinite(scores).all(axis=0))[0][0])
        raise UserError(
            f"vector {number} and a query have no finite product",
            topic="search",
            hint="Look for NaN or very large numbers in both; give them length 1.",
        )
    return scores


def _nothing(queries: int) -> Neighbours:
    return Neighbours(np.empty((queries, 0), np.int64), np.empty((queries, 0), np.float64))


def _rounding(asked: Vectors, length: float) -> Floats:
    """How far a float32 product of each query with a vector of that length can be off, (q,)."""
    width = asked.shape[1]
    own = np.linalg.norm(np.asarray(asked, np.float64), axis=1)
    relative = 1.01 * (width + 4) * 2.0**-24 * own * length
    return np.asarray(relative + width * SMALLEST * (1 + own + length))


def _candidates(
    scores: NDArray[np.float32], best: Neighbours, rounding: Floats, *, k: int
) -> tuple[Ids, Ids]:
    """Rows and columns of the scores that could be among the k best of their query."""
    bar = np.full(len(scores), -np.inf)
    if best.ids.shape[1] == k:
        bar = best.scores[:, -1] - rounding
    # Where the bar is too low to leave few, the k-th best of the block is a higher one.
    crowded = np.nonzero((scores >= bar[:, None]).sum(axis=1) > 2 * k)[0]
    if len(crowded):
        place = scores.shape[1] - k
        kth = np.partition(scores[crowded], place, axis=1)[:, place]
        bar[crowded] = np.maximum(bar[crowded], kth - 2 * rounding[crowded])
    rows, columns = np.nonzero(scores >= bar[:, None])
    return rows, columns


def _products(asked: Vectors, some: Vectors, rows: Ids, columns: Ids) -> Floats:
    """q · v of the pairs in float64, each computed alone: a block's size changes none."""
    parts = [np.empty(0)]
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        pairs = slice(start, start + PAIRS_AT_ONCE)
        left = np.asarray(asked[rows[pairs]], np.float64)
        parts.append((left * some[columns[pairs]]).sum(axis=1))
    return np.concatenate(parts)


def _merged(best: Neighbours, rows: Ids, ids: Ids, scores: Floats, *, k: int) -> Neighbours:
    """The k best of those so far and the new ones; every query has the same number of them."""
    queries, held = best.ids.shape
    row = np.concatenate([np.repeat(np.arange(queries), held), rows])
    ids = np.concatenate([best.ids.ravel(), ids])
    scores = np.concatenate([best.scores.ravel(), scores])
    order = np.lexsort((ids, -scores, row))
    row, ids, scores = row[order], ids[order], scores[order]
    place = np.arange(len(row)) - np.searchsorted(row, row)
    kept = place < k
    return Neighbours(ids[kept].reshape(queries, -1), scores[kept].reshape(queries, -1))
