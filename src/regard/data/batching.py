"""Batching: bucketing by length, fixed-size batches, and the batch order of evaluation.

A `BatchPlan` lists the row indices of each batch. It is a pure function of lengths, seed and epoch,
so a resumed run continues with the same batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from regard.batch import Ints
from regard.core.errors import UserError

BatchPlan = list[Ints]


def bucketed_batches(
    lengths: ArrayLike, *, budget: int, pool: int = 50, seed: int, epoch: int
) -> BatchPlan:
    """Length bucketing: batches of rows of similar length, at most `budget` tokens with padding.

    Shuffled rows are grouped into pools of about `pool` × `budget` tokens. Each pool is sorted by
    length, longest first, and cut into batches; then the batches are shuffled. Small pools keep the
    order random, large pools need less padding.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    _check_budget(sizes, budget)
    generator = _generator(seed, epoch)
    order = generator.permutation(len(sizes))
    pool_index = (np.cumsum(sizes[order]) - 1) // (pool * budget)
    edges = np.flatnonzero(np.diff(pool_index, prepend=-1, append=pool_index[-1] + 1))
    plan = [
        batch
        for begin, end in pairwise(edges)
        for batch in _sort_and_cut(order[begin:end], sizes, budget)
    ]
    return [plan[i] for i in generator.permutation(len(plan))]


def sorted_batches(lengths: ArrayLike, *, budget: int) -> BatchPlan:
    """For evaluation: every row once, longest first, without shuffling."""
    sizes = np.asarray(lengths, dtype=np.int64)
    _check_budget(sizes, budget)
    return list(_sort_and_cut(np.arange(len(sizes)), sizes, budget))


def fixed_size_batches(count: int, *, rows: int, seed: int, epoch: int) -> BatchPlan:
    """Shuffled batches of `rows` rows each; the last one may be smaller."""
    order = _generator(seed, epoch).permutation(count)
    return [order[begin : begin + rows] for begin in range(0, count, rows)]


def padding_fraction(lengths: ArrayLike, plan: BatchPlan) -> float:
    """The fraction of positions in the plan's padded batches that are padding."""
    sizes = np.asarray(lengths, dtype=np.int64)
    positions = sum(len(batch) * int(sizes[batch].max()) for batch in plan)
    return 1 - sum(int(sizes[batch].sum()) for batch in plan) / positions


def _sort_and_cut(rows: Ints, sizes: Ints, budget: int) -> Iterator[Ints]:
    """Longest first, so the first row of a batch decides how many rows fit."""
    rows = rows[np.argsort(-sizes[rows], kind="stable")]
    begin = 0
    while begin < len(rows):
        end = begin + budget // max(int(sizes[rows[begin]]), 1)
        yield rows[begin:end]
        begin = end


def _check_budget(sizes: Ints, budget: int) -> None:
    if not len(sizes):
        raise UserError("there are no rows", topic="corpus", hint="Give more text.")
    longest = int(sizes.argmax())
    if sizes[longest] > budget:
        raise UserError(
            f"row {longest:,} has {sizes[longest]:,} tokens, more than a batch of "
            f"train.batch_tokens = {budget:,}",
            topic="corpus",
            hint=f"Set train.batch_tokens = {sizes[longest]} or more, or lower model.context.",
        )


def _generator(seed: int, epoch: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, epoch]))
