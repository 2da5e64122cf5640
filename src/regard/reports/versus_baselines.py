"""The model against its baselines, in sentences that also hold when it is behind.

The verdict is the run's own paired comparison on the same items, read from its record; it is never
inferred from whether two intervals overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.evaluation.formatting import (
    capitalise,
    decimals_shown,
    difference,
    join_words,
    number,
    order_splits,
    sample_size,
    with_interval,
)
from regard.evaluation.statistics.baseline_verdict import BaselineVerdict
from regard.runs.results import MODEL, ComparisonRecord, EvaluationRecord, ScoreRecord

NOT_COMPARED = "not compared with"


@dataclass(frozen=True)
class VersusBaseline:
    """The model's score, a baseline's score, and their paired comparison."""

    model: ScoreRecord
    baseline: ScoreRecord
    comparison: ComparisonRecord | None
    "None if the run recorded none."

    @property
    def verdict(self) -> str:
        return self.comparison.verdict if self.comparison else NOT_COMPARED

    @property
    def sentence(self) -> str:
        """The baseline's score, and the model's paired difference from it:

        `unigram: 412.0 [399.1, 425.5]; the model's is 71 % lower (−293.6 [−306.1, −281.3], paired
        on the same 904 documents).`
        """
        theirs = f"{self.baseline.of}: {with_interval(self.baseline)}"
        if self.comparison is None:
            return f"{theirs}; the model was not compared with it."
        ours = f"the model's is {relative(self.model.value, self.baseline.value)}"
        sentence = f"{theirs}; {ours} ({self._paired_difference(self.comparison)})"
        if self.comparison.verdict in (BaselineVerdict.BETTER, BaselineVerdict.BEHIND):
            return f"{sentence}."
        return f"{sentence}, {self.verdict} it."

    def _paired_difference(self, comparison: ComparisonRecord) -> str:
        # As many decimals as the larger score has, so that readers can check the subtraction.
        decimals = decimals_shown(max(self.model.value, self.baseline.value))
        text = difference(comparison.value, comparison.low, comparison.high, decimals=decimals)
        size = sample_size(comparison.n, comparison.items, comparison.groups)
        text += f", paired on the same {size}"
        return f"{text}; no interval: {comparison.no_interval}" if comparison.no_interval else text


@dataclass(frozen=True)
class Headline:
    """The model's score on one split, and its comparison with each baseline there."""

    score: ScoreRecord
    versus: tuple[VersusBaseline, ...]

    @property
    def verdict(self) -> str:
        """`Better than the unigram; behind the Kneser-Ney 3-gram.`"""
        if math.isnan(self.score.value):
            return "Not a number: this run broke, and its other scores mean nothing."
        if not self.versus:
            return "No baseline was measured: nothing says whether this is good."
        grouped = {
            verdict: [f"the {v.baseline.of}" for v in self.versus if v.verdict == verdict]
            for verdict in (*BaselineVerdict, NOT_COMPARED)
        }
        clauses = [f"{verdict} {join_words(names)}" for verdict, names in grouped.items() if names]
        return f"{capitalise('; '.join(clauses))}."


def headlines(results: EvaluationRecord, *, metric: str = "") -> list[Headline]:
    """One for each split the model was evaluated on: test, then dev, then others.

    The training set is a headline only if there is no other split.
    """
    metric = metric or results.main
    scores = {s.split: s for s in results.estimates if (s.metric, s.of) == (metric, MODEL)}
    found = [
        Headline(scores[split], _versus_each_baseline(scores[split], results))
        for split in order_splits(scores)
    ]
    held_out = [headline for headline in found if headline.score.split != "train"]
    return held_out or found


def relative(ours: float, theirs: float) -> str:
    """`14 % higher`, `71 % lower`, `3.5 times as high`: ours relative to theirs."""
    if not (math.isfinite(ours) and math.isfinite(theirs)) or theirs <= 0:
        return f"{number(ours)} against {number(theirs)}"
    ratio = ours / theirs
    if ratio >= 2:
        return f"{ratio:.1f} times as high"
    percent = 100 * abs(ratio - 1)
    if percent < 0.1:
        return "the same within 0.1 %"
    shown = f"{percent:.1f}" if percent < 9.95 else f"{percent:.0f}"
    return f"{shown} % {'higher' if ratio > 1 else 'lower'}"


def _versus_each_baseline(
    model: ScoreRecord, results: EvaluationRecord
) -> tuple[VersusBaseline, ...]:
    key = (model.split, model.metric)
    comparisons = {c.against: c for c in results.comparisons if (c.split, c.metric) == key}
    return tuple(
        VersusBaseline(model, score, comparisons.get(score.of))
        for score in results.estimates
        if (score.split, score.metric) == key and score.of != MODEL
    )
