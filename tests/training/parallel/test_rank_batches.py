"""The batches of ranks are those of one process, cut: same rows, same order, same draws."""

from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from tests.training.toy_loader import build_loader

from regard.batch import split_edges
from regard.training.batch_loader import Cursor
from regard.training.parallel.rank_batches import RankLoader, rows_by_rank, uneven_batches

BATCHES = 25
"More than an epoch."


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("batches", ["bucketed", "packed", "padded"])
def test_documents_come_in_the_same_order_for_any_number_of_ranks(size, accumulate, batches):
    loader = build_loader(batches=batches, accumulate=accumulate)
    whole = list(islice(loader.batches_after(Cursor()), BATCHES))
    ranks = [
        list(islice(RankLoader(loader, rank=rank, size=size).batches_after(Cursor()), BATCHES))
        for rank in range(size)
    ]
    assert whole[-1][1].epoch > 0
    for number, (batch, cursor) in enumerate(whole):
        cut = [rank[number] for rank in ranks]
        assert {one[1] for one in cut} == {cursor}
        assert {one[0].rows for one in cut} == {batch.rows}
        parts = [one[0].parts for one in cut]
        own = [
            part.rows
            for micro in zip(*parts, strict=True)
            for rank, part in enumerate(micro)
            if part.rank_rows[rank]
        ]
        assert sum(own, ()) == batch.rows
        assert sum(one[0].weight for one in cut) == float(batch.weights.sum())
        assert sum(one[0].tokens for one in cut) == batch.tokens
        # Targets are drawn alike, whoever builds them.
        targets = torch.cat([part.targets[part.weights > 0] for one in parts for part in one])
        expected = batch.targets[batch.weights > 0]
        if all(min(part.rank_rows) for one in parts for part in one):
            assert torch.equal(targets.sort().values, expected.sort().values)


def test_micro_batches_of_ranks_are_those_of_one_process():
    """Negatives are the other rows of a micro-batch."""
    loader = build_loader(batches="packed", accumulate=2)
    [(batch, _)] = islice(loader.batches_after(Cursor()), 1)
    ranks = [RankLoader(loader, rank=rank, size=2) for rank in range(2)]
    cut = [next(rank.batches_after(Cursor()))[0] for rank in ranks]
    together = [one.rows + other.rows for one, other in zip(*(c.parts for c in cut), strict=True)]
    assert together == [one.rows for one in batch.micro_batches(2)]


@pytest.mark.parametrize("rows", range(9))
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_rows_are_shared_evenly(rows, size):
    counts = rows_by_rank(rows, size)
    assert sum(counts) == rows
    assert max(counts) - min(counts) <= 1


def test_a_rank_without_a_row_computes_one_of_weight_zero():
    loader = build_loader(batches="padded", accumulate=100)
    batch = RankLoader(loader, rank=1, size=4).build_batch(loader.plan(0)[0], epoch=0)
    assert {sum(part.rank_rows) for part in batch.parts} == {1}
    assert all(len(part.rows) == 1 for part in batch.parts)
    own = [part for part in batch.parts if part.rank_rows[1]]
    assert batch.weight == sum(float(part.weights.sum()) for part in own)


def test_uneven_batches_are_counted():
    plan = [np.arange(count) for count in (4, 5, 1)]
    assert uneven_batches(plan, accumulate=1, size=2) == (2, 1)
    assert uneven_batches(plan, accumulate=2, size=2) == (2, 1)
    assert uneven_batches(plan, accumulate=1, size=1) == (0, 0)
    assert list(pairwise(split_edges(5, 2))) == [(0, 2), (2, 5)]
