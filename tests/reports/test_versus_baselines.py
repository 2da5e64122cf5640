"""Verdicts against baselines: exactly what the run recorded."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wording import says

from regard.evaluation.statistics.baseline_verdict import BaselineVerdict
from regard.reports.versus_baselines import Headline, VersusBaseline, headlines, relative
from regard.runs.results import ComparisonRecord, ResultsRecord, ScoreRecord

KNESER_NEY = "Kneser-Ney 3-gram"
FIELDS = {"metric": "perplexity", "n": 904}


def score(of: str, value: float, *, split: str = "test", margin: float = 4.0) -> ScoreRecord:
    low, high = value - margin, value + margin
    return ScoreRecord(split=split, of=of, value=value, low=low, high=high, **FIELDS)


def compared(
    against: str,
    verdict: BaselineVerdict,
    value: float,
    *,
    split: str = "test",
    margin: float = 2.0,
) -> ComparisonRecord:
    ends = {"low": value - margin, "high": value + margin}
    return ComparisonRecord(
        split=split, against=against, verdict=verdict, value=value, **ends, **FIELDS
    )


def headline(*measured: ScoreRecord | ComparisonRecord) -> Headline:
    scores = [row for row in measured if isinstance(row, ScoreRecord)]
    comparisons = [row for row in measured if isinstance(row, ComparisonRecord)]
    return headlines(
        ResultsRecord(run="r", finished="", estimates=scores, comparisons=comparisons)
    )[0]


def test_better_than_both_baselines():
    better = headline(
        score("model", 90),
        score(KNESER_NEY, 104),
        score("unigram", 412),
        compared(KNESER_NEY, BaselineVerdict.BETTER, -14),
        compared("unigram", BaselineVerdict.BETTER, -322),
    )
    assert says(better.verdict, "Better than", "Kneser-Ney 3-gram and the unigram")
    facts = ("Kneser-Ney 3-gram: 104.0 [100.0, 108.0]", "13 % lower", "−14.0 [−16.0, −12.0]")
    assert says(better.versus[0].sentence, *facts, "paired", "904 documents")


def test_behind_one_baseline_and_not_distinguishable_from_the_other():
    behind = headline(
        score("model", 955.7),
        score(KNESER_NEY, 138.3),
        score("unigram", 955.0),
        compared(KNESER_NEY, BaselineVerdict.BEHIND, 817.4),
        compared("unigram", BaselineVerdict.NOT_DISTINGUISHABLE, 0.7),
    )
    assert says(behind.verdict, "Behind the Kneser-Ney", "not distinguishable from the unigram")
    first, second = (versus.sentence for versus in behind.versus)
    assert says(first, "138.3 [134.3, 142.3]", "6.9 times as high", "+817.4 [+815.4, +819.4]")
    assert says(second, "+0.7 [−1.3, +2.7]", "904 documents", "not distinguishable")


margins = st.floats(0.1, 500)


@given(st.sampled_from(BaselineVerdict), margins, margins)
def test_recorded_verdict_is_independent_of_interval_overlap(verdict, ours, theirs):
    found = headline(
        score("model", 90, margin=ours),
        score("unigram", 104, margin=theirs),
        compared("unigram", verdict, -14),
    )
    assert found.versus[0].verdict == verdict
    assert found.verdict == f"{verdict[0].upper()}{verdict[1:]} the unigram."


def test_missing_comparison_gives_no_verdict():
    uncompared = headline(
        score("model", 90),
        score("unigram", 412),
        score("model", 91, split="dev"),
        score("unigram", 413, split="dev"),
        compared("unigram", BaselineVerdict.BETTER, -322, split="dev"),
    )
    assert uncompared.verdict == "Not compared with the unigram."
    assert says(uncompared.versus[0].sentence, "unigram: 412.0 [408.0, 416.0]", "not compared")


def test_difference_has_the_decimals_of_the_larger_score():
    ours, theirs = score("model", 1039.2), score(KNESER_NEY, 142.52)
    versus = VersusBaseline(
        ours, theirs, compared(KNESER_NEY, BaselineVerdict.BEHIND, 896.7, margin=35.2)
    )
    assert "142.5 [138.5, 146.5]" in versus.sentence
    assert "(+897 [+862, +932], paired" in versus.sentence


def test_difference_without_interval_names_the_reason():
    comparison = ComparisonRecord(
        split="test",
        metric="perplexity",
        against="unigram",
        verdict=BaselineVerdict.NOT_DISTINGUISHABLE,
        value=-14.0,
        n=1,
        no_interval="one item cannot show how items vary",
    )
    sentence = VersusBaseline(score("model", 90), score("unigram", 104), comparison).sentence
    assert says(sentence, "−14.0, paired", "1 document;", comparison.no_interval, "distinguishable")


def test_nan_score_has_its_own_verdict():
    broken = headline(score("model", math.nan), score("unigram", 412))
    assert broken.verdict.startswith("Not a number")


def test_missing_baselines_are_reported():
    assert "No baseline was measured" in headline(score("model", 90)).verdict


def test_headlines_order_splits_and_show_train_only_alone():
    def headline_splits(*names: str) -> list[str]:
        scores = [score("model", 90, split=name) for name in names]
        found = headlines(ResultsRecord(run="r", finished="", estimates=scores))
        return [headline.score.split for headline in found]

    assert headline_splits("train", "dev", "test") == ["test", "dev"]
    assert headline_splits("train", "far", "dev") == ["dev", "far"]
    assert headline_splits("train") == ["train"]
    assert headlines(ResultsRecord(run="r", finished="", estimates=[score("unigram", 412)])) == []


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
def test_relative_difference_text(ours, theirs, words):
    assert relative(ours, theirs) == words
