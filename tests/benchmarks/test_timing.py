"""Ratios, exponents and rows computed from given times; no time itself is tested."""

import pytest
from benchmarks.speed.timing import (
    OURS,
    Ratio,
    Row,
    fastest_peer,
    in_process_turns,
    interleaved_times,
    ratio_by_round,
    scaling_exponent,
)


def test_ratios_compare_times_of_the_same_round():
    # The second round was slow for both, which leaves the ratio unchanged.
    assert ratio_by_round([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == Ratio(2.0, 2.0, 2.0)


def test_ratio_range_excludes_the_extreme_rounds():
    slow = [1.0, 2.0, 3.0, 4.0, 50.0]
    assert ratio_by_round(slow, [1.0] * 5) == Ratio(3.0, 2.0, 4.0)
    assert ratio_by_round(slow[:3], [1.0] * 3) == Ratio(2.0, 1.0, 3.0)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_scaling_exponent_of_a_power_law(exponent):
    sizes = [1024, 2048, 4096]
    assert scaling_exponent(sizes, [3 * n**exponent for n in sizes]) == pytest.approx(exponent)


def test_each_round_times_every_contestant_in_alternating_order():
    called = []
    runs = {name: lambda name=name: called.append(name) for name in "ab"}
    times = interleaved_times(in_process_turns(runs, warm_up=1), rounds=3)
    assert called == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert {name: len(seconds) for name, seconds in times.items()} == {"a": 3, "b": 3}


def test_fastest_peer_excludes_ours():
    assert fastest_peer({OURS: [1.0], "slow": [5.0, 5.0], "fast": [2.0, 9.0, 2.0]}) == "fast"


@pytest.mark.parametrize(
    ("better", "value", "reached"),
    [
        ("higher", 1.99, False),
        ("higher", 2.0, True),
        ("lower", 2.0, True),
        ("lower", 2.01, False),
    ],
)
def test_goal_respects_the_better_direction(better, value, reached):
    row = Row("training", "a step", "ms", {}, Ratio.single(value), "theirs ÷ ours", 2.0, better)
    table = row.as_dict()
    assert (table["reached"], table["ratio"], table["low"]) == (reached, value, value)
