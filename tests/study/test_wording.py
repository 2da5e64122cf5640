"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from regard.study import wording


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.8349, "1.835"),
        (93.694, "93.69"),
        (118.44, "118.4"),
        (1234.5, "1,234"),
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


def test_moment():
    assert wording.moment("2026-11-05T20:04:00Z") == "5 November 2026, 20:04 UTC"
    assert wording.moment("yesterday") == "yesterday"


def test_training_figures_are_named_for_when_they_were_measured():
    assert wording.part("train") == "training set, evaluated after training"


def test_listed():
    assert [wording.listed("abc"[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
