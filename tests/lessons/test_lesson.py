"""Checks pass and fail by their numbers, and are written as people read them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.lessons.lesson import Lesson, LessonTable, above, below, equal, near
from regard.lessons.number_format import expected, measured, written

numbers = st.floats(-1e6, 1e6)


@given(numbers, numbers, st.floats(0, 10))
def test_near_is_a_distance(a: float, b: float, within: float):
    assert near("x", a, b, within=within).passed == (abs(a - b) <= within)
    assert near("x", [a, b], [b, a], within=within).passed == (abs(a - b) <= within)


@given(numbers, numbers)
def test_limits_are_included(a: float, limit: float):
    assert below("x", a, limit).passed == (a <= limit)
    assert above("x", torch.tensor(a, dtype=torch.float64), limit).passed == (a >= limit)


@pytest.mark.parametrize(
    "check",
    [
        near("x", math.nan, 0, within=1),
        near("x", [1.0, math.nan], [1.0, 1.0], within=1),
        below("x", math.nan, 1),
        above("x", math.nan, 1),
        equal("x", torch.tensor([math.nan]), torch.tensor([math.nan])),
    ],
)
def test_what_is_no_number_passes_nothing(check):
    assert not check.passed


def test_many_numbers_are_told_by_their_largest_difference():
    found = near("x", torch.arange(10.0), torch.arange(10.0) + 0.25, within=0.3)
    assert (found.name, found.measured, found.passed) == ("x, largest difference", 0.25, True)


def test_numbers_of_another_shape_are_a_mistake():
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        near("x", [1, 2], [1, 2, 3], within=1)


def test_equal_is_exact():
    assert equal("x", (1, "a"), [1, "a"]).passed
    assert not equal("x", [1, 2], [1, 3]).passed
    big = torch.arange(9)
    assert equal("x", big, big.clone()).passed
    other = equal("x", big, big + (big == 3))
    assert (other.passed, other.measured) == (False, "1 differ")
    assert not equal("x", big, big[:8]).passed


def test_a_table_is_not_ragged():
    with pytest.raises(ValueError, match="row 1: 1 cells, 2 columns"):
        LessonTable(("a", "b"), [(1, 2), (3,)])


def test_a_column_of_phrases_is_told_from_figures():
    table = LessonTable(
        ("a", "b", "c"), [("x", 1, "no"), ("y", 2.5, "because it is longer than that")]
    )
    assert table.told == [False, False, True]
    assert LessonTable(("a",), []).told == [False]


def test_a_lesson_passes_with_all_its_checks():
    def lesson(*checks):
        return Lesson(table=LessonTable((), ()), chart=None, caption="", checks=checks, see=())  # type: ignore[arg-type]

    good, bad = near("x", 1, 1, within=0), near("x", 1, 2, within=0)
    assert lesson(good).passed
    assert not lesson(good, bad).passed


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.22821, "0.2282"),
        (-0.00001234, "−1.2·10⁻⁵"),
        (1e-12, "10⁻¹²"),
        (-1e-12, "−10⁻¹²"),
        (1234567, "1,234,567"),
        (0.0, "0"),
        (-0.0, "0"),
        (2.0, "2"),
        (math.inf, "∞"),
        (math.nan, "not a number"),
        (True, "yes"),
        ([1, 2.5], "(1, 2.5)"),
        ("word", "word"),
    ],
)
def test_numbers_are_short(value, shown):
    assert written(value) == shown


def test_a_check_says_what_it_wants():
    check = near("x", [1.0, 1e-14], [1.0, 0.0], within=1e-6)
    assert (measured(check), expected(check)) == ("(1, 0)", "= (1, 0) ± 10⁻⁶")
    assert expected(below("x", 1, 0.5)) == "≤ 0.5"
    assert expected(above("x", 1, 0.5)) == "≥ 0.5"


def test_json_has_no_nan():
    assert below("x", math.nan, 1).as_dict()["measured"] == "nan"
