"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from regard.evaluation import wording


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.8349, "1.835"),
        (93.694, "93.69"),
        (118.44, "118.4"),
        (1234.5, "1,234"),
        (0.82137, "0.8214"),
        (-2.5, "−2.500"),
        (math.inf, "∞"),
        (math.nan, "not a number"),
        (None, "–"),
    ],
)
def test_number(value, words):
    assert wording.number(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0 %"), (0.00003, "below 0.01 %"), (0.0019, "0.19 %"), (0.0123, "1.23 %"), (1, "100 %")],
)
def test_a_small_share_does_not_read_as_none(value, words):
    assert wording.share(value) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3.21, "3.2 s"), (59.96, "1 min 0 s"), (241.3, "4 min 1 s"), (7_260, "2 h 1 min")],
)
def test_duration(seconds, words):
    assert wording.duration(seconds) == words


@pytest.mark.parametrize(
    ("size", "words"), [(999, "999 bytes"), (612_000_000, "612 MB"), (1_500_000_000, "1.50 GB")]
)
def test_memory(size, words):
    assert wording.memory(size) == words


def test_an_interval_has_the_decimals_of_its_value():
    assert wording.interval(913.06, 1001.16, beside=955.71) == "[913.1, 1,001.2]"
    assert wording.interval(998.8, 1079.6, beside=1039.2) == "[999, 1,080]"
    assert wording.interval(None, None, beside=3.0) == ""


@pytest.mark.parametrize(
    ("ends", "decimals", "words"),
    [
        ((817.4, 780.4, 858.6), 1, "+817.4 [+780.4, +858.6]"),
        ((-1.94, -6.0, 2.2), 1, "−1.9 [−6.0, +2.2]"),
        ((3.1, 0.04, 6.2), 0, "+3.10 [+0.04, +6.20]"),
        ((0.0, -0.2, 0.2), 1, "+0.0 [−0.2, +0.2]"),
        ((12.0, None, None), 1, "+12.0"),
        ((math.inf, 2.0, math.inf), 1, "+∞ [+2.0, +∞]"),
    ],
)
def test_a_difference_shows_on_which_side_of_nought_it_lies(ends, decimals, words):
    assert wording.difference(*ends, decimals=decimals) == words


def test_one_item_is_not_called_items():
    assert wording.counted(1, "documents") == "1 document"
    assert wording.counted(2104, "documents") == "2,104 documents"


def test_parts_are_read_test_first_and_train_last():
    assert wording.in_reading_order(["train", "far", "dev", "far", "test"]) == [
        *("test", "dev", "far", "train")
    ]


def test_moment():
    assert wording.moment("2026-11-05T20:04:00Z") == "5 November 2026, 20:04 UTC"
    assert wording.moment("yesterday") == "yesterday"


def test_training_figures_are_named_for_when_they_were_measured():
    assert wording.part("train") == "training set, evaluated after training"
    assert [wording.part(name) for name in ("far", "challenge set")] == ["far set", "challenge set"]


def test_listed():
    assert [wording.listed("abc"[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
