import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.numbers import has_decimal_comma, parse_number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_number_is_read_back(number):
    assert parse_number(repr(number)) == number
    assert parse_number(number) == number


@pytest.mark.parametrize(
    ("cell", "number"), [("3,5", 3.5), ("-0,25", -0.25), (" 4 ", 4.0), ("0,125", 0.125), (7, 7.0)]
)
def test_numbers_of_spreadsheets(cell, number):
    assert parse_number(cell) == number


@pytest.mark.parametrize(
    "cell", ["1,234", "1,2,3", "1_000", "five", "", "nan", "inf", None, True, [1], math.inf]
)
def test_what_may_be_two_numbers_or_none(cell):
    assert parse_number(cell) is None


def test_one_value_says_whether_the_commas_of_a_column_are_decimal() -> None:
    assert has_decimal_comma(["1,234", "0,5"])
    assert has_decimal_comma(["1,234", "-0,500"])
    assert not has_decimal_comma(["1,234", "2,000", "7", 3.5, None])
    assert not has_decimal_comma(["1.234", "0.5"])
