"""Checks compare values within tolerances; values are formatted for reading."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.lessons.lesson import Lesson, LessonTable, above, below, equal, near
from regard.lessons.number_format import format_expected, format_measured, format_value

numbers = st.floats(-1e6, 1e6)


@given(numbers, numbers, st.floats(0, 10))
def test_near_compares_the_absolute_difference(a: float, b: float, within: float):
    assert near("x", a, b, within=within).passed == (abs(a - b) <= within)
    assert near("x", [a, b], [b, a], within=within).passed == (abs(a - b) <= within)


@given(numbers, numbers)
def test_below_and_above_include_the_limit(a: float, limit: float):
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
def test_nan_fails_every_check(check):
    assert not check.passed


def test_many_values_are_reported_by_their_largest_difference():
    check = near("x", torch.arange(10.0), torch.arange(10.0) + 0.25, within=0.3)
    assert (check.name, check.measured, check.passed) == ("x, largest difference", 0.25, True)


def test_near_refuses_different_shapes():
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        near("x", [1, 2], [1, 2, 3], within=1)


def test_equal_is_exact():
    assert equal("x", (1, "a"), [1, "a"]).passed
    assert not equal("x", [1, 2], [1, 3]).passed
    tensor = torch.arange(9)
    assert equal("x", tensor, tensor.clone()).passed
    changed = equal("x", tensor, tensor + (tensor == 3))
    assert (changed.passed, changed.measured) == (False, "1 differ")
    assert not equal("x", tensor, tensor[:8]).passed


def test_table_refuses_ragged_rows():
    with pytest.raises(ValueError, match="row 1: 1 cells, 2 columns"):
        LessonTable(("a", "b"), [(1, 2), (3,)])


def test_text_columns_are_recognised():
    table = LessonTable(
        ("a", "b", "c"), [("x", 1, "no"), ("y", 2.5, "because it is longer than that")]
    )
    assert table.is_text == [False, False, True]
    assert LessonTable(("a",), []).is_text == [False]


def test_lesson_passes_if_all_checks_pass():
    def lesson(*checks):
        return Lesson(table=LessonTable((), ()), chart=None, caption="", checks=checks, see_also=())  # type: ignore[arg-type]

    passing, failing = near("x", 1, 1, within=0), near("x", 1, 2, within=0)
    assert lesson(passing).passed
    assert not lesson(passing, failing).passed


@pytest.mark.parametrize(
    ("value", "text"),
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
def test_format_value(value, text):
    assert format_value(value) == text


def test_checks_are_formatted_with_relation_and_tolerance():
    check = near("x", [1.0, 1e-14], [1.0, 0.0], within=1e-6)
    assert (format_measured(check), format_expected(check)) == ("(1, 0)", "= (1, 0) ± 10⁻⁶")
    assert format_expected(below("x", 1, 0.5)) == "≤ 0.5"
    assert format_expected(above("x", 1, 0.5)) == "≥ 0.5"


def test_nan_is_a_string_in_json():
    assert below("x", math.nan, 1).as_dict()["measured"] == "nan"
