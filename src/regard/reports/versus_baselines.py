"""How a model stands against its baselines, in words that are also true when it is behind.

The run itself compared them, paired on the same items, and recorded its verdict; it is read here,
never guessed from whether two intervals overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.evaluation.formatting import (
    capitalise,
    difference,
    interval,
    join_words,
    number,
    order_splits,
    quantity,
)
from regard.evaluation.statistics.estimate import decimals_shown
from regard.runs.archive.record import (
    MODEL,
    BaselineVerdict,
    ComparisonRecord,
    ResultsRecord,
    ScoreRecord,
)

NOT_COMPARED = "not compared with"


@dataclass(frozen=True)
class VersusBaseline:
    """The model beside one baseline."""

    model: ScoreRecord
    baseline: ScoreRecord
    comparison: ComparisonRecord | None
    "None where the run recorded none."

    @property
    def verdict(self) -> str:
        return self.comparison.verdict if self.comparison else NOT_COMPARED

    @property
    def sentence(self) -> str:
        """The baseline's figure, and how far the model is from it on the same items:

        `unigram: 412.0 [399.1, 425.5]; the model's is 71 % lower (−293.6 [−306.1, −281.3], paired
        on the same 904 documents).`
        """
        theirs = f"{self.baseline.of}: {with_interval(self.baseline)}"
        if self.comparison is None:
            return f"{theirs}; the model was not compared with it."
        ours = f"the model's is {relative(self.model.value, self.baseline.value)}"
        told = f"{theirs}; {ours} ({self._paired(self.comparison)})"
        if self.comparison.verdict in (BaselineVerdict.BETTER, BaselineVerdict.BEHIND):
            return f"{told}."
        return f"{told}, {self.verdict} it."

    def _paired(self, compared: ComparisonRecord) -> str:
        # As exact as the larger of the two figures is shown, so that the sum can be checked by eye.
        decimals = decimals_shown(max(self.model.value, self.baseline.value))
        shown = difference(compared.value, compared.low, compared.high, decimals=decimals)
        paired = f"{shown}, paired on the same {quantity(compared.n, compared.items)}"
        return f"{paired}; no interval: {compared.no_interval}" if compared.no_interval else paired


@dataclass(frozen=True)
class Headline:
    """The model's figure on one part, and how it stands against each baseline there."""

    figure: ScoreRecord
    standings: tuple[VersusBaseline, ...]

    @property
    def verdict(self) -> str:
        """`Better than the unigram; behind the Kneser-Ney 3-gram.`"""
        if math.isnan(self.figure.value):
            return "Not a number: this run broke, and its other figures mean nothing."
        if not self.standings:
            return "No baseline was measured, so nothing says whether this is good."
        grouped = {
            verdict: [f"the {s.baseline.of}" for s in self.standings if s.verdict == verdict]
            for verdict in (*BaselineVerdict, NOT_COMPARED)
        }
        clauses = [f"{verdict} {join_words(names)}" for verdict, names in grouped.items() if names]
        return f"{capitalise('; '.join(clauses))}."


def headlines(measured: ResultsRecord, *, metric: str = "") -> list[Headline]:
    """One for each part the model was measured on, the part that is furthest from training first.

    Training-set figures head a report only where there is nothing else.
    """
    metric = metric or measured.main
    ours = {f.part: f for f in measured.figures if (f.metric, f.of) == (metric, MODEL)}
    found = [Headline(ours[part], _standings(ours[part], measured)) for part in order_splits(ours)]
    held_out = [headline for headline in found if headline.figure.part != "train"]
    return held_out or found


def relative(ours: float, theirs: float) -> str:
    """`14 % higher`, `71 % lower`, `3.5 times as high`: ours, seen from theirs."""
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


def with_interval(figure: ScoreRecord) -> str:
    """`138.3 [126.8, 150.7]`"""
    ends = interval(figure.low, figure.high, beside=figure.value)
    return f"{number(figure.value)} {ends}".strip()


def _standings(model: ScoreRecord, measured: ResultsRecord) -> tuple[VersusBaseline, ...]:
    here = (model.part, model.metric)
    recorded = {c.against: c for c in measured.comparisons if (c.part, c.metric) == here}
    return tuple(
        VersusBaseline(model, figure, recorded.get(figure.of))
        for figure in measured.figures
        if (figure.part, figure.metric) == here and figure.of != MODEL
    )
