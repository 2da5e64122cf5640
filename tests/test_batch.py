"""Padding, collating and batch plans."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.batch import Example, RowLayout, collate, pad
from regard.core.errors import UserError
from regard.data.batching import (
    bucketed_batches,
    fixed_size_batches,
    padding_fraction,
    sorted_batches,
)

lengths_and_budget = st.lists(st.integers(1, 30), min_size=1, max_size=80).flatmap(
    lambda lengths: st.tuples(
        st.just(lengths), st.integers(max(lengths), max(max(lengths), sum(lengths) // 2 + 1))
    )
)


def example(length: int, *, weight: float = 1, segment: int | None = None) -> Example:
    return Example(
        inputs=np.arange(10, 10 + length),
        targets=np.arange(11, 11 + length),
        weights=np.full(length, weight, dtype=np.float32),
        segments=None if segment is None else np.full(length, segment),
    )


def test_pad_to_the_longest_row() -> None:
    padded = pad([[4, 7, 9, 15, 23, 18], [2, 8, 10], [3, 13, 2, 8]], 0)
    assert padded.tolist() == [
        [4, 7, 9, 15, 23, 18],
        [2, 8, 10, 0, 0, 0],
        [3, 13, 2, 8, 0, 0],
    ]


def test_collate_pads_and_keeps_row_numbers() -> None:
    batch = collate([example(3), example(1, weight=0.5)], pad_id=9, rows=np.array([4, 17]))
    assert batch.ids.tolist() == [[10, 11, 12], [10, 9, 9]]
    assert batch.targets.tolist() == [[11, 12, 13], [11, 9, 9]]
    assert batch.weights.tolist() == [[1, 1, 1], [0.5, 0, 0]]
    assert batch.valid.tolist() == [[True] * 3, [True, False, False]]
    assert batch.segments is None
    assert batch.rows == (4, 17)
    assert batch.tokens == 4
    assert batch.padding_fraction == pytest.approx(2 / 6)
    assert (batch.ids.dtype, batch.weights.dtype) == (torch.int64, torch.float32)
    assert batch.valid.dtype == torch.bool


def test_segments_are_kept_or_refused() -> None:
    batch = collate([example(2, segment=1), example(1, segment=2)], pad_id=9, rows=[0, 1])
    assert batch.segments is not None
    assert batch.segments.tolist() == [[1, 1], [2, 0]]
    with pytest.raises(ValueError, match="some have none"):
        collate([example(2, segment=1), example(1)], pad_id=9, rows=[0, 1])


@given(st.integers(1, 9), st.integers(1, 12))
def test_micro_batches_join_to_the_batch(rows: int, count: int) -> None:
    examples = [example(1 + i % 3, segment=i) for i in range(rows)]
    batch = collate(examples, pad_id=0, rows=range(rows))
    micro_batches = batch.micro_batches(count)
    assert len(micro_batches) == min(count, rows)
    assert all(micro_batch.rows for micro_batch in micro_batches)
    assert sum((micro_batch.rows for micro_batch in micro_batches), ()) == batch.rows
    for name in ("ids", "targets", "weights", "valid", "segments"):
        joined = torch.cat([getattr(micro_batch, name) for micro_batch in micro_batches])
        assert torch.equal(joined, getattr(batch, name))


def test_to_device_moves_all_tensors() -> None:
    batch = collate([example(2)], pad_id=0, rows=[5]).to("meta")
    assert batch.ids.device.type == batch.valid.device.type == "meta"
    assert batch.rows == (5,)


@given(lengths_and_budget, st.integers(1, 5), st.integers(0, 9))
def test_bucketed_batches_cover_all_rows_within_the_budget(
    given_lengths, pool: int, epoch: int
) -> None:
    lengths, budget = given_lengths
    sizes = np.array(lengths)
    if len(sizes) * sizes.max() < budget:
        with pytest.raises(UserError, match=r"train\.batch_tokens"):
            bucketed_batches(lengths, budget=budget, pool=pool, seed=1, epoch=epoch)
        return
    plan = bucketed_batches(lengths, budget=budget, pool=pool, seed=1, epoch=epoch)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(lengths)))
    for batch in plan:
        assert len(batch) * sizes[batch].max() <= budget
        assert (np.diff(sizes[batch]) <= 0).all()
    again = bucketed_batches(lengths, budget=budget, pool=pool, seed=1, epoch=epoch)
    assert all(np.array_equal(a, b) for a, b in zip(plan, again, strict=True))


@given(lengths_and_budget)
def test_sorted_batches_cover_all_rows_within_the_budget(given_lengths) -> None:
    lengths, budget = given_lengths
    plan = sorted_batches(lengths, budget=budget)
    sizes = np.array(lengths)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(lengths)))
    assert all(len(batch) * sizes[batch].max() <= budget for batch in plan)


@given(st.integers(1, 200), st.integers(1, 20))
def test_fixed_size_batches_cover_all_rows(count: int, rows: int) -> None:
    plan = fixed_size_batches(count, rows=rows, seed=0, epoch=0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(count))
    assert {len(batch) for batch in plan[:-1]} <= {rows}


def test_order_depends_on_epoch_and_seed() -> None:
    lengths = np.tile(np.arange(1, 21), 50)

    def plans(seed: int, epoch: int) -> tuple[list[int], list[int]]:
        by_length = bucketed_batches(lengths, budget=64, seed=seed, epoch=epoch)
        by_count = fixed_size_batches(1000, rows=8, seed=seed, epoch=epoch)
        return np.concatenate(by_length).tolist(), np.concatenate(by_count).tolist()

    first = plans(0, 0)
    for other in (plans(0, 1), plans(1, 0)):
        assert first[0] != other[0]
        assert first[1] != other[1]


def test_bucketing_pads_less_than_random_batches() -> None:
    lengths = np.random.default_rng(0).geometric(0.05, size=5000).clip(1, 100)
    by_length = padding_fraction(
        lengths, bucketed_batches(lengths, budget=1600, pool=50, seed=0, epoch=0)
    )
    random_order = padding_fraction(
        lengths, fixed_size_batches(len(lengths), rows=16, seed=0, epoch=0)
    )
    assert by_length < 0.1 < random_order


def test_padding_fraction_counts_padded_positions() -> None:
    assert padding_fraction([6, 3, 4], [np.array([0, 1, 2])]) == pytest.approx(5 / 18)


def test_bucketed_batches_are_shuffled() -> None:
    lengths = np.tile(np.arange(1, 41), 20)
    max_lengths = [
        int(lengths[batch].max()) for batch in bucketed_batches(lengths, budget=80, seed=0, epoch=0)
    ]
    assert max_lengths != sorted(max_lengths, reverse=True)


def test_row_longer_than_a_batch_is_refused() -> None:
    with pytest.raises(UserError, match=r"row 1 has 70 tokens.*train\.batch_tokens = 64"):
        bucketed_batches([3, 70, 4], budget=64, seed=0, epoch=0)
    with pytest.raises(UserError, match="there are no rows"):
        sorted_batches([], budget=64)


def test_rows_that_do_not_fill_a_batch_are_one_batch() -> None:
    for plan in (
        bucketed_batches([3, 4, 2], budget=64, seed=0, epoch=0),
        fixed_size_batches(3, rows=16, seed=0, epoch=0),
    ):
        assert [sorted(batch.tolist()) for batch in plan] == [[0, 1, 2]]


def test_more_micro_batches_than_rows_are_one_a_row() -> None:
    batch = collate([example(3), example(5), example(2)], pad_id=0, rows=(4, 1, 9))
    assert [tuple(one.rows) for one in batch.micro_batches(10**12)] == [(4,), (1,), (9,)]


def test_the_layout_is_read_once_and_goes_to_the_device() -> None:
    """On `meta` it could not be read: a device need not be waited for."""
    batch = collate([example(3), example(1), example(2, weight=0)], pad_id=0, rows=range(3))
    moved = batch.to("meta")
    assert moved.layout.rows == RowLayout((3, 1, 2), "right")
    assert moved.layout.scored is not None
    assert moved.layout.scored.device.type == "meta"
    assert batch.layout.scored is not None
    assert batch.layout.scored.tolist() == [0, 1, 2, 3]
    assert batch.at_scored(batch.ids).tolist() == [10, 11, 12, 10]
    assert moved.at_scored(moved.ids).shape == (4,)


def test_a_changed_batch_has_its_own_layout() -> None:
    batch = collate([example(2), example(2)], pad_id=0, rows=range(2)).to("cpu")
    assert batch.layout.scored is None
    assert batch.layout.rows.padding == "none"
    weights = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    changed = replace(batch, weights=weights, valid=weights < 1)
    assert changed.layout.scored is not None
    assert changed.layout.scored.tolist() == [1, 2]
    assert changed.layout.rows == RowLayout((1, 1), "anywhere")
    first, second = changed.micro_batches(2)
    assert first.layout.scored is not None
    assert second.layout.scored is not None
    assert (first.layout.scored.tolist(), second.layout.scored.tolist()) == ([1], [0])


def test_sources_as_rows_know_their_layout() -> None:
    sources = [np.array([5, 6, 7]), np.array([8])]
    examples = [replace(example(2), source=source) for source in sources]
    batch = collate(examples, pad_id=0, rows=range(2)).to("meta").of_sources()
    assert batch.ids.shape == (2, 3)
    assert batch.layout.rows == RowLayout((3, 1), "right")
