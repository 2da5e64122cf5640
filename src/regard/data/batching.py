"""Batching: which rows go through the model together.

A plan is a list of arrays of row numbers, a pure function of lengths, seed and epoch, so a run that
was stopped resumes at the same batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from regard.batch import Ints
from regard.core.errors import UserError

Plan = list[Ints]


def bucketed(lengths: ArrayLike, *, budget: int, pool: int = 50, seed: int, epoch: int) -> Plan:
    """Rows of like length together: padded batches of at most `budget` places.

    Shuffled rows fall into pools of about `pool` budgets; each pool is sorted, longest first, and
    cut into batches; then the batches are shuffled. Small pools keep an epoch's order random, large
    ones waste less.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    _check_budget(sizes, budget)
    if len(sizes) * sizes.max() < budget:
        raise UserError(
            f"{len(sizes):,} rows of at most {sizes.max():,} tokens do not fill one batch of "
            f"train.batch_tokens = {budget:,}",
            topic="corpus",
            hint=f"Set train.batch_tokens = {len(sizes) * sizes.max()} or less, or give more text.",
        )
    generator = _generator(seed, epoch)
    order = generator.permutation(len(sizes))
    pool_of = (np.cumsum(sizes[order]) - 1) // (pool * budget)
    edges = np.flatnonzero(np.diff(pool_of, prepend=-1, append=pool_of[-1] + 1))
    plan = [
        batch
        for begin, end in pairwise(edges)
        for batch in _cut_sorted(order[begin:end], sizes, budget)
    ]
    return [plan[i] for i in generator.permutation(len(plan))]


def in_order(lengths: ArrayLike, *, budget: int) -> Plan:
    """For measuring: every row once, longest first, whatever their number; nothing is random."""
    sizes = np.asarray(lengths, dtype=np.int64)
    _check_budget(sizes, budget)
    return list(_cut_sorted(np.arange(len(sizes)), sizes, budget))


def fixed(count: int, *, rows: int, seed: int, epoch: int) -> Plan:
    """Shuffled rows, `rows` to a batch; the last batch takes what is left."""
    if count < rows:
        raise UserError(
            f"{count:,} rows where one batch of train.batch_tokens holds {rows:,}",
            topic="corpus",
            hint="Lower train.batch_tokens or give more text.",
        )
    order = _generator(seed, epoch).permutation(count)
    return [order[begin : begin + rows] for begin in range(0, count, rows)]


def waste(lengths: ArrayLike, plan: Plan) -> float:
    """The share of places in a plan's padded batches that hold no token."""
    sizes = np.asarray(lengths, dtype=np.int64)
    places = sum(len(batch) * int(sizes[batch].max()) for batch in plan)
    return 1 - sum(int(sizes[batch].sum()) for batch in plan) / places


def _cut_sorted(rows: Ints, sizes: Ints, budget: int) -> Iterator[Ints]:
    """Longest first, so the first row of a batch says how many fit: one step a batch, not a row."""
    rows = rows[np.argsort(-sizes[rows], kind="stable")]
    begin = 0
    while begin < len(rows):
        end = begin + budget // max(int(sizes[rows[begin]]), 1)
        yield rows[begin:end]
        begin = end


def _check_budget(sizes: Ints, budget: int) -> None:
    if not len(sizes):
        raise UserError("there is no row to read", topic="corpus", hint="Give more text.")
    longest = int(sizes.argmax())
    if sizes[longest] > budget:
        raise UserError(
            f"row {longest:,} holds {sizes[longest]:,} tokens where a batch of "
            f"train.batch_tokens = {budget:,} must hold it whole",
            topic="corpus",
            hint=f"Set train.batch_tokens = {sizes[longest]} or more, or lower model.context.",
        )


def _generator(seed: int, epoch: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, epoch]))
