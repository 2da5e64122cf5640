"""The verdict in words: what the run recorded, and never more than that."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.reports.versus_baselines import Headline, VersusBaseline, headlines, relative
from regard.runs.archive.record import BaselineVerdict, ComparisonRecord, ResultsRecord, ScoreRecord

KNESER_NEY = "Kneser-Ney 3-gram"
FIELDS = {"metric": "perplexity", "n": 904}


def figure(of: str, value: float, *, part: str = "test", spread: float = 4.0) -> ScoreRecord:
    low, high = value - spread, value + spread
    return ScoreRecord(part=part, of=of, value=value, low=low, high=high, **FIELDS)


def compared(
    against: str, verdict: BaselineVerdict, value: float, *, part: str = "test", spread: float = 2.0
) -> ComparisonRecord:
    ends = {"low": value - spread, "high": value + spread}
    return ComparisonRecord(
        part=part, against=against, verdict=verdict, value=value, **ends, **FIELDS
    )


def headline(*measured: ScoreRecord | ComparisonRecord) -> Headline:
    figures = [row for row in measured if isinstance(row, ScoreRecord)]
    comparisons = [row for row in measured if isinstance(row, ComparisonRecord)]
    return headlines(ResultsRecord(run="r", finished="", figures=figures, comparisons=comparisons))[
        0
    ]


def test_better_than_both():
    won = headline(
        figure("model", 90),
        figure(KNESER_NEY, 104),
        figure("unigram", 412),
        compared(KNESER_NEY, BaselineVerdict.BETTER, -14),
        compared("unigram", BaselineVerdict.BETTER, -322),
    )
    assert won.verdict == "Better than the Kneser-Ney 3-gram and the unigram."
    assert won.standings[0].sentence == (
        "Kneser-Ney 3-gram: 104.0 [100.0, 108.0]; the model's is 13 % lower "
        "(−14.0 [−16.0, −12.0], paired on the same 904 documents)."
    )


def test_behind_one_and_not_distinguishable_from_the_other():
    lost = headline(
        figure("model", 955.7),
        figure(KNESER_NEY, 138.3),
        figure("unigram", 955.0),
        compared(KNESER_NEY, BaselineVerdict.BEHIND, 817.4),
        compared("unigram", BaselineVerdict.NOT_DISTINGUISHABLE, 0.7),
    )
    assert lost.verdict == "Behind the Kneser-Ney 3-gram; not distinguishable from the unigram."
    assert lost.standings[0].sentence == (
        "Kneser-Ney 3-gram: 138.3 [134.3, 142.3]; the model's is 6.9 times as high "
        "(+817.4 [+815.4, +819.4], paired on the same 904 documents)."
    )
    assert lost.standings[1].sentence.endswith(
        "(+0.7 [−1.3, +2.7], paired on the same 904 documents), not distinguishable from it."
    )


spreads = st.floats(0.1, 500)


@given(st.sampled_from(BaselineVerdict), spreads, spreads)
def test_the_recorded_verdict_stands_whatever_the_intervals_do(verdict, ours, theirs):
    found = headline(
        figure("model", 90, spread=ours),
        figure("unigram", 104, spread=theirs),
        compared("unigram", verdict, -14),
    )
    assert found.standings[0].verdict == verdict
    assert found.verdict == f"{verdict[0].upper()}{verdict[1:]} the unigram."


def test_without_a_recorded_comparison_nothing_is_claimed():
    silent = headline(
        figure("model", 90),
        figure("unigram", 412),
        figure("model", 91, part="dev"),
        figure("unigram", 413, part="dev"),
        compared("unigram", BaselineVerdict.BETTER, -322, part="dev"),
    )
    assert silent.verdict == "Not compared with the unigram."
    assert silent.standings[0].sentence == (
        "unigram: 412.0 [408.0, 416.0]; the model was not compared with it."
    )


def test_a_difference_is_as_exact_as_the_larger_figure():
    ours, theirs = figure("model", 1039.2), figure(KNESER_NEY, 142.52)
    standing = VersusBaseline(
        ours, theirs, compared(KNESER_NEY, BaselineVerdict.BEHIND, 896.7, spread=35.2)
    )
    assert "142.5 [138.5, 146.5]" in standing.sentence
    assert "(+897 [+862, +932], paired" in standing.sentence


def test_a_difference_without_interval_says_why():
    alone = ComparisonRecord(
        part="test",
        metric="perplexity",
        against="unigram",
        verdict=BaselineVerdict.NOT_DISTINGUISHABLE,
        value=-14.0,
        n=1,
        no_interval="one item cannot show how items vary",
    )
    assert VersusBaseline(figure("model", 90), figure("unigram", 104), alone).sentence.endswith(
        "(−14.0, paired on the same 1 document; no interval: one item cannot show how items vary), "
        "not distinguishable from it."
    )


def test_a_broken_model_is_called_broken():
    broken = headline(figure("model", math.nan), figure("unigram", 412))
    assert broken.verdict.startswith("Not a number")


def test_no_baseline_is_said():
    assert "No baseline was measured" in headline(figure("model", 90)).verdict


def test_test_comes_before_dev_and_train_only_stands_alone():
    def parts(*names: str) -> list[str]:
        figures = [figure("model", 90, part=name) for name in names]
        found = headlines(ResultsRecord(run="r", finished="", figures=figures))
        return [headline.figure.part for headline in found]

    assert parts("train", "dev", "test") == ["test", "dev"]
    assert parts("train", "far", "dev") == ["dev", "far"]
    assert parts("train") == ["train"]
    assert headlines(ResultsRecord(run="r", finished="", figures=[figure("unigram", 412)])) == []


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
