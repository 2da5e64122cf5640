"""Formatting of estimates, counts and durations."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from regard.evaluation import formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.8349, "1.835"),
        (93.694, "93.69"),
        (118.44, "118.4"),
        (1234.5, "1,234"),
        (0.82137, "0.821"),
        (-2.5, "−2.500"),
        (math.inf, "∞"),
        (math.nan, "not a number"),
        (None, "–"),
    ],
)
def test_number(value, text):
    assert formatting.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 %"), (0.00003, "below 0.01 %"), (0.0019, "0.19 %"), (0.0123, "1.23 %"), (1, "100 %")],
)
def test_small_fraction_does_not_round_to_zero(value, text):
    assert formatting.percent(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.21, "3.2 s"), (59.96, "1 min 0 s"), (241.3, "4 min 1 s"), (7_260, "2 h 1 min")],
)
def test_duration(seconds, text):
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(999, "999 bytes"), (612_000_000, "612 MB"), (1_500_000_000, "1.50 GB")]
)
def test_memory_size(size, text):
    assert formatting.memory_size(size) == text


def test_interval_has_the_decimals_of_its_estimate():
    assert formatting.interval(913.06, 1001.16, beside=955.71) == "[913.1, 1,001.2]"
    assert formatting.interval(998.8, 1079.6, beside=1039.2) == "[999, 1,080]"
    assert formatting.interval(None, None, beside=3.0) == ""


def test_value_with_interval():
    estimate = SimpleNamespace(value=138.3, low=126.81, high=150.7)
    assert formatting.with_interval(estimate) == "138.3 [126.8, 150.7]"
    assert formatting.with_interval(SimpleNamespace(value=138.3, low=None, high=None)) == "138.3"
    assert formatting.with_interval(None) == "–"


def test_zero_has_no_sign():
    assert formatting.number(-0.04, decimals=1) == "0.0"
    assert formatting.number(-0.04, decimals=2) == "−0.04"


@pytest.mark.parametrize(
    ("estimate", "decimals", "text"),
    [
        ((817.4, 780.4, 858.6), 1, "+817.4 [+780.4, +858.6]"),
        ((-1.94, -6.0, 2.2), 1, "−1.9 [−6.0, +2.2]"),
        ((3.1, 0.04, 6.2), 0, "+3.10 [+0.04, +6.20]"),
        ((0.0, -0.2, 0.2), 1, "+0.0 [−0.2, +0.2]"),
        ((12.0, None, None), 1, "+12.0"),
        ((math.inf, 2.0, math.inf), 1, "+∞ [+2.0, +∞]"),
    ],
)
def test_difference_and_its_bounds_show_their_sign(estimate, decimals, text):
    assert formatting.difference(*estimate, decimals=decimals) == text


def test_quantity_of_one_is_singular():
    assert formatting.quantity(1, "documents") == "1 document"
    assert formatting.quantity(2104, "documents") == "2,104 documents"


def test_splits_are_ordered_test_first_and_train_last():
    assert formatting.order_splits(["train", "far", "dev", "far", "test"]) == [
        *("test", "dev", "far", "train")
    ]


def test_timestamp():
    assert formatting.timestamp("2026-11-05T20:04:00Z") == "5 November 2026, 20:04 UTC"
    assert formatting.timestamp("yesterday") == "yesterday"


def test_split_labels():
    assert formatting.split_label("train") == "training set, evaluated after training"
    names = ("far", "challenge set")
    assert [formatting.split_label(name) for name in names] == ["far set", "challenge set"]


def test_join_words():
    assert [formatting.join_words("abc"[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
