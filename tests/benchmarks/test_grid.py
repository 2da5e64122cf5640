"""The grid draws its points by the seed; its summary is over the drawn points alone."""

from __future__ import annotations

import math

import pytest
from benchmarks.grid.__main__ import check_same_work, summary
from benchmarks.grid.points import MAX_OPERATIONS, NANOGPT, POINTS, draw_points


def test_points_follow_from_the_seed():
    drawn = draw_points(1)
    assert drawn == draw_points(1)
    assert drawn != draw_points(2)
    assert len(set(drawn)) == POINTS
    assert all(size.step_operations <= MAX_OPERATIONS for size in drawn)
    assert all(size.rows * size.positions == size.tokens for size in drawn)


def test_nanogpt_is_in_no_mean():
    rows = [
        {"name": name, "value": value, "low": value, "high": value}
        for name, value in [(NANOGPT.name, 0.1), ("a", 2.0), ("b", 0.5)]
    ]
    result = summary(rows)
    assert math.isclose(result["geometric_mean"]["value"], 1.0)
    assert (result["worst"], result["worst_point"]) == (0.5, "b")
    assert summary(rows[:1]) == {}


def test_other_work_is_refused():
    ours = {"parameters": 10, "loss": 1.0}
    check_same_work(NANOGPT, {"ours": ours, "theirs": {**ours, "loss": 1.00001}})
    with pytest.raises(RuntimeError, match="parameters differ"):
        check_same_work(NANOGPT, {"ours": ours, "theirs": {**ours, "parameters": 11}})
    with pytest.raises(RuntimeError, match="losses"):
        check_same_work(NANOGPT, {"ours": ours, "theirs": {**ours, "loss": 1.1}})
