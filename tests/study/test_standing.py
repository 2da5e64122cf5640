"""The verdict in words: ahead, behind, or not told apart, and never more than the figures say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.study.record import Figure
from regard.study.standing import Comparison, Headline, Standing, headlines, relative


def figure(of: str, value: float, spread: float | None = 4.0, *, part="test", n=100) -> Figure:
    ends = {} if spread is None else {"low": value - spread, "high": value + spread}
    return Figure(part=part, metric="perplexity", of=of, value=value, n=n, **ends)


def headline(*figures: Figure) -> Headline:
    return headlines(figures)[0]


def test_ahead_of_both():
    won = headline(figure("model", 90), figure("Kneser-Ney 3-gram", 104), figure("unigram", 412))
    assert won.verdict == "Ahead of the Kneser-Ney 3-gram and the unigram."
    assert won.comparisons[0].sentence == (
        "Kneser-Ney 3-gram: 104.0 [100.0, 108.0]; the model's is 13 % lower."
    )


def test_behind_one():
    lost = headline(figure("model", 118), figure("Kneser-Ney 3-gram", 104), figure("unigram", 412))
    assert lost.verdict == "Ahead of the unigram; behind the Kneser-Ney 3-gram."
    assert lost.comparisons[0].sentence.endswith("the model's is 13 % higher.")


def test_overlapping_intervals_claim_nothing():
    close = headline(figure("model", 100), figure("Kneser-Ney 3-gram", 104))
    assert close.verdict == "Not told apart from the Kneser-Ney 3-gram."
    assert "but the intervals overlap: not told apart" in close.comparisons[0].sentence


def test_a_baseline_without_interval_within_the_models():
    close = headline(figure("model", 100), figure("unigram", 102, None))
    assert close.comparisons[0].standing is Standing.NOT_TOLD_APART
    assert "it lies within the model's interval" in close.comparisons[0].sentence


def test_figures_on_other_items_are_not_compared():
    other = headline(figure("model", 90), figure("unigram", 412, n=99))
    assert other.verdict == "Not comparable with the unigram."
    assert "measured on 99 documents where the model has 100 documents" in (
        other.comparisons[0].sentence
    )


def test_a_broken_model_is_called_broken():
    broken = headline(figure("model", math.nan), figure("unigram", 412))
    assert broken.verdict.startswith("Not a number")
    assert broken.comparisons[0].standing is Standing.NOT_COMPARABLE


def test_an_infinite_perplexity_is_behind():
    lost = headline(figure("model", math.inf), figure("unigram", 412))
    assert lost.comparisons[0].standing is Standing.BEHIND
    assert "∞" in lost.comparisons[0].sentence


def test_no_baseline_is_said():
    assert "No baseline was measured" in headline(figure("model", 90)).verdict


def test_test_comes_before_dev_and_train_only_stands_alone():
    figures = [figure("model", 90, part=part) for part in ("train", "dev", "test")]
    assert [found.figure.part for found in headlines(figures)] == ["test", "dev"]
    assert [found.figure.part for found in headlines(figures[:1])] == ["train"]
    assert headlines([figure("unigram", 412)]) == []


positive = st.floats(0.1, 1e4)


@given(positive, positive, positive, positive)
def test_ahead_seen_from_the_other_side_is_behind(ours, our_spread, theirs, their_spread):
    a, b = figure("model", ours, our_spread), figure("unigram", theirs, their_spread)
    turned = {Standing.AHEAD: Standing.BEHIND, Standing.BEHIND: Standing.AHEAD}
    standing = Comparison(a, b).standing
    assert Comparison(b, a).standing is turned.get(standing, standing)
    if standing is Standing.AHEAD:
        assert ours < theirs


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        (114, 100, "14 % higher"),
        (29, 100, "71 % lower"),
        (350, 100, "3.5 times as high"),
        (100.5, 100, "0.5 % higher"),
        (100, 100, "the same within 0.1 %"),
        (math.inf, 100, "∞ against 100.0"),
    ],
)
def test_relative(ours, theirs, words):
    assert relative(ours, theirs) == words
