"""What the benchmarks' table says follows from the times; no time itself is tested."""

import pytest
from benchmarks.speed.contest import (
    OURS,
    Ratio,
    Row,
    fastest_other,
    growth_exponent,
    ratio_by_round,
    times_in_turn,
    turns_here,
)


def test_a_ratio_is_of_the_same_round():
    # The second round was slow for both: what was compared is not.
    assert ratio_by_round([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == Ratio(2.0, 2.0, 2.0)


def test_the_spread_leaves_out_the_extreme_rounds():
    slow = [1.0, 2.0, 3.0, 4.0, 50.0]
    assert ratio_by_round(slow, [1.0] * 5) == Ratio(3.0, 2.0, 4.0)
    assert ratio_by_round(slow[:3], [1.0] * 3) == Ratio(2.0, 1.0, 3.0)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_growth_finds_the_exponent(exponent):
    sizes = [1024, 2048, 4096]
    assert growth_exponent(sizes, [3 * n**exponent for n in sizes]) == pytest.approx(exponent)


def test_every_contestant_runs_once_a_round_and_turns_change_direction():
    called = []
    runs = {name: lambda name=name: called.append(name) for name in "ab"}
    taken = times_in_turn(turns_here(runs, warm_up=1), rounds=3)
    assert called == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert {name: len(seconds) for name, seconds in taken.items()} == {"a": 3, "b": 3}


def test_the_fastest_other_is_not_ours():
    assert fastest_other({OURS: [1.0], "slow": [5.0, 5.0], "quick": [2.0, 9.0, 2.0]}) == "quick"


@pytest.mark.parametrize(
    ("better", "value", "reached"),
    [
        ("higher", 1.99, False),
        ("higher", 2.0, True),
        ("lower", 2.0, True),
        ("lower", 2.01, False),
    ],
)
def test_a_goal_is_reached_from_its_own_side(better, value, reached):
    row = Row("training", "a step", "ms", {}, Ratio.of_one(value), "theirs ÷ ours", 2.0, better)
    told = row.as_dict()
    assert (told["reached"], told["ratio"], told["low"]) == (reached, value, value)
