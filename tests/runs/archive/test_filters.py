"""Conditions and sort keys over the facts of runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.runs.archive.filters import Condition, filter_runs, sort_runs
from regard.runs.archive.index import ListedRun


def run_with(**facts: Any) -> ListedRun:
    keys = {key.replace("__", "."): value for key, value in facts.items()}
    return ListedRun(Path("x"), {"run": "x", "state": "finished", **keys})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model.layers=3", True),
        ("model.layers == 3.0", True),
        ("model.layers!=3", False),
        ("model.layers<=3", True),
        ("model.layers>3", False),
        ("lr<1e-3", True),
        ("kind=dot", True),
        ('kind="dot"', True),
        ("kind!=additive", True),
        ("digits=3", True),
        ("on=true", True),
        ("on=1", False),
        ("finished>2026-11-01", True),
        ("finished<2026-11-01", False),
        ("absent=3", False),
        ("absent!=3", False),
        ('prompts=["", "a"]', True),
        ("prompts<[1]", False),
    ],
)
def test_conditions(text, expected):
    facts = run_with(
        model__layers=3,
        lr=5e-4,
        kind="dot",
        digits="3",
        on=True,
        finished="2026-11-15T21:56:41+00:00",
        prompts=["", "a"],
    ).facts
    assert Condition.parse(text).matches(facts) is expected


NUMBERS = st.one_of(st.integers(-1000, 1000), st.floats(allow_nan=False, allow_infinity=False))


@given(fact=NUMBERS, value=NUMBERS)
def test_exactly_one_of_two_opposite_conditions_matches(fact, value):
    for one, other in (("=", "!="), ("<", ">="), (">", "<=")):
        matches = [Condition.parse(f"x{sign}{value}").matches({"x": fact}) for sign in (one, other)]
        assert sorted(matches) == [False, True]


@pytest.mark.parametrize("text", ["", "model.layers", "=3", "model.layers=", "a b=3", "x ~ 3"])
def test_a_malformed_condition_is_an_error(text):
    with pytest.raises(UserError, match="no condition"):
        Condition.parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model.atention.kind=dot", "did you mean model.attention.kind"),
        ("layers=3", "did you mean model.layers"),
        ("zzz=3", "no run here has the key zzz"),
        ("model.layers<many", "model.layers is a number such as 3"),
    ],
)
def test_a_condition_that_cannot_match_is_an_error(text, says):
    runs = [run_with(model__layers=3, model__attention__kind="dot")]
    with pytest.raises(UserError, match=says):
        filter_runs(runs, [Condition.parse(text)])
    assert filter_runs([], [Condition.parse(text)]) == []


def test_runs_must_match_every_condition():
    runs = [run_with(a=1, b=1), run_with(a=1, b=2), run_with(a=2)]
    conditions = [Condition.parse("a=1"), Condition.parse("b>1")]
    assert filter_runs(runs, conditions) == [runs[1]]


@given(st.lists(st.one_of(st.none(), st.just(math.nan), NUMBERS, st.text(max_size=3))))
def test_runs_without_the_key_or_with_nan_sort_last(values):
    runs = [run_with(x=0), *(run_with(**({} if v is None else {"x": v})) for v in values)]
    for key in ("x", "-x"):
        found = [run.facts.get("x") for run in sort_runs(runs, key)]
        assert len(found) == len(runs)
        real = [v for v in found if v is not None and not (isinstance(v, float) and math.isnan(v))]
        assert found[: len(real)] == real
        numbers = [v for v in real if not isinstance(v, str)]
        assert numbers == sorted(numbers, reverse=key == "-x")
