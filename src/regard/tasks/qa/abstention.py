"""When to keep silent: a threshold on the confidence of an answer, chosen on dev and frozen.

    answer where  confidence ≥ threshold,  else "I don't know"

The threshold answers a share of dev (coverage), or as much of it as keeps a share of the answers
right (precision); El-Yaniv and Wiener, 2010. Both curves of dev are kept with it, so that a single
answer can later be told with how often answers as sure were right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.question_answering import exact_match_and_f1
from regard.evaluation.metrics.risk_coverage import (
    CoveragePoint,
    JudgedAnswers,
    ReliabilityBin,
    area_under_risk_coverage,
    expected_calibration_error,
    rank_by_confidence,
    reliability_bins,
    risk_coverage,
    selective_accuracy,
    threshold_for_coverage,
    threshold_for_precision,
)

NEVER = 2.0
"A threshold that no confidence reaches."
CURVE_POINTS = 200
"Of risk against coverage that are kept, at most."


@dataclass(frozen=True, kw_only=True)
class Abstention:
    """The threshold, and what dev showed where it was chosen."""

    threshold: float
    n: int
    "Questions of dev."
    answered: int
    right: int
    "Of those answered."
    wanted: str
    "What it was chosen for, in words."
    curve: tuple[CoveragePoint, ...]
    bins: tuple[ReliabilityBin, ...]

    def answers(self, confidence: float) -> bool:
        return confidence >= self.threshold

    def as_sure(self, confidence: float) -> ReliabilityBin | None:
        """What became of dev's answers of like confidence; None where there were none."""
        return next((one for one in self.bins if _holds(one, confidence)), None)

    def remark(self) -> str:
        there = f"chosen on the {self.n:,} questions of dev to {self.wanted}"
        if self.threshold == NEVER:
            return f"no threshold {there} exists, so every question is left unanswered"
        share = f"{100 * self.right / self.answered:.1f} %"
        return (
            f"the threshold {self.threshold:.4g} was {there}: there {self.right:,} of "
            f"{self.answered:,} answers are right ({share}); it is frozen, so judge by test"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Abstention:
        """The inverse of `as_dict`."""
        plain = {key: value for key, value in kept.items() if key not in ("curve", "bins")}
        return cls(
            **plain,
            curve=tuple(CoveragePoint(**point) for point in kept["curve"]),
            bins=tuple(ReliabilityBin(**one) for one in kept["bins"]),
        )


def choose_threshold(
    rows: Sequence[Row], *, coverage: float, precision: float | None
) -> Abstention:
    """From answers with truths; `precision`, where given, takes the place of `coverage`."""
    judged = judge(rows)
    if precision is None:
        wanted = f"answer {100 * coverage:g} % of them"
        threshold = threshold_for_coverage(judged, coverage)
    else:
        wanted = f"be right in {100 * precision:g} % of its answers"
        found = threshold_for_precision(judged, precision)
        threshold = NEVER if found is None else found
    given = judged.confidence >= threshold
    return Abstention(
        threshold=threshold,
        n=len(judged),
        answered=int(given.sum()),
        right=int(judged.correct[given].sum()),
        wanted=wanted,
        curve=tuple(_thinned(risk_coverage(judged), keep=threshold)),
        bins=tuple(reliability_bins(judged)),
    )


def judge(rows: Sequence[Row]) -> JudgedAnswers:
    """How sure each answer was, and whether it is right."""
    right = [exact_match_and_f1(row["predicted"], row["truths"])[0] == 1.0 for row in rows]
    return rank_by_confidence([row["confidence"] for row in rows], right)


def risk_tables(
    rows: Sequence[Row], *, threshold: float | None, split: str
) -> dict[str, list[Row]]:
    """Figures of abstention with their intervals, and the two curves of a part for drawing."""
    judged = judge(rows)
    figures = [
        area_under_risk_coverage(judged, split=split),
        expected_calibration_error(judged, split=split),
    ]
    if threshold is not None:
        figures += filter(None, [selective_accuracy(judged, threshold, split=split)])
    points = _thinned(risk_coverage(judged), keep=threshold)
    return {
        "risk": [
            {("metric" if key == "name" else key): value for key, value in one.as_dict().items()}
            for one in figures
        ],
        "risk_coverage": [asdict(point) for point in points],
        "calibration": [asdict(one) for one in reliability_bins(judged)],
    }


def _holds(one: ReliabilityBin, confidence: float) -> bool:
    return one.low <= confidence < one.high or confidence == one.high == 1.0


def _thinned(points: Sequence[CoveragePoint], *, keep: float | None) -> list[CoveragePoint]:
    """At most so many, both ends among them, and the one at the threshold."""
    if len(points) <= CURVE_POINTS:
        return list(points)
    numbers = set(np.linspace(0, len(points) - 1, CURVE_POINTS - 1).round().astype(int).tolist())
    numbers |= {number for number, point in enumerate(points) if point.threshold == keep}
    return [points[number] for number in sorted(numbers)]
