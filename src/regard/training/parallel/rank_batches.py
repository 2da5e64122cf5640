"""The batches of one process, cut by rank: a rank builds and computes its rows of each micro-batch.

    global batch   r0 r1 r2 r3 r4        train.accumulate = 2, 2 ranks
    micro-batches  r0 r1 | r2 r3 r4
    rank 0         r0    | r2
    rank 1            r1 |    r3 r4

Plan, order and the random draws of a row do not depend on the rank, so the number of ranks changes
rounding alone. Where a micro-batch has fewer rows than there are ranks, the others compute its
first row with weight 0, because all ranks have to take part in what they compute together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from regard.batch import Batch, Ints, split_edges
from regard.data.batching import BatchPlan
from regard.training.batch_loader import BatchLoader, Cursor


@dataclass(frozen=True)
class RankBatch:
    """What one rank computes of a global batch."""

    rows: tuple[int, ...]
    "Of the global batch, named in errors."
    parts: tuple[Batch, ...]
    "The rank's rows of each micro-batch."
    weight: float
    "Sum of the loss weights of the rank's rows."
    tokens: int
    "Of the rank's rows."

    def micro_batches(self, count: int) -> list[Batch]:
        return list(self.parts)


class RankLoader:
    """A rank's part of the batches of a loader."""

    def __init__(self, loader: BatchLoader, *, rank: int, size: int) -> None:
        self.loader = loader
        self.rank = rank
        self.size = size

    @property
    def steps(self) -> int:
        return self.loader.steps

    def batches_after(self, cursor: Cursor) -> Iterator[tuple[RankBatch, Cursor]]:
        for rows, after in self.loader.plans_after(cursor):
            yield self.build_batch(rows, after.epoch), after

    def build_batch(self, rows: Ints, epoch: int) -> RankBatch:
        parts: list[Batch] = []
        weight, tokens = 0.0, 0
        for begin, end in pairwise(split_edges(len(rows), self.loader.settings.accumulate)):
            counts = rows_by_rank(end - begin, self.size)
            first = begin + sum(counts[: self.rank])
            own = rows[first : first + counts[self.rank]]
            batch = self.loader.build_batch(own if len(own) else rows[begin : begin + 1], epoch)
            parts.append(replace(batch, rank_rows=counts))
            if len(own):
                weight += float(batch.weights.sum(dtype=batch.weights.double().dtype))
                tokens += batch.tokens
        return RankBatch(tuple(int(row) for row in rows), tuple(parts), weight, tokens)


def rows_by_rank(rows: int, size: int) -> tuple[int, ...]:
    """How many of the rows are each rank's, in order; they differ by one at most."""
    edges = np.linspace(0, rows, size + 1).round().astype(int)
    return tuple(int(count) for count in np.diff(edges))


def uneven_batches(plan: BatchPlan, *, accumulate: int, size: int) -> tuple[int, int]:
    """How many batches of the plan the ranks cannot divide evenly, and how many of these leave a
    rank without a row."""
    uneven = empty = 0
    for rows in plan:
        counts = [end - begin for begin, end in pairwise(split_edges(len(rows), accumulate))]
        uneven += any(count % size for count in counts)
        empty += any(count < size for count in counts)
    return uneven, empty
