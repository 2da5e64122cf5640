"""Abstention (selective prediction): a threshold on the confidence, chosen on dev and frozen.

    answer where  confidence ≥ threshold,  else "I don't know"

The threshold is chosen for a coverage (fraction of dev that is answered), or for a precision
(fraction of the answers that is right) at the highest coverage that reaches it; El-Yaniv and
Wiener, 2010. The risk-coverage and reliability curves of dev are stored with it, so that a single
answer can be shown with the accuracy of dev answers of similar confidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

import numpy as np

from regard.evaluation.metrics.metric import Row, row_groups
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
"Maximum points of a stored curve."

Point = TypeVar("Point")


@dataclass(frozen=True, kw_only=True)
class Abstention:
    """The threshold, and the curves of dev on which it was chosen."""

    threshold: float
    n: int
    "Questions of dev."
    answered: int
    "Questions of dev at or above the threshold."
    right: int
    "Right answers among those answered."
    wanted: str
    "The criterion of the choice, in words."
    curve: tuple[CoveragePoint, ...]
    bins: tuple[ReliabilityBin, ...]

    def answers(self, confidence: float) -> bool:
        return confidence >= self.threshold

    def reliability(self, confidence: float) -> ReliabilityBin | None:
        """The bin of dev answers with this confidence; None if dev has none there."""
        return next((each for each in self.bins if _contains(each, confidence)), None)

    def remark(self) -> str:
        choice = f"chosen on the {self.n:,} questions of dev to {self.wanted}"
        if self.threshold == NEVER:
            return f"no threshold {choice} exists, so every question is left unanswered"
        accuracy = f"{100 * self.right / self.answered:.1f} %"
        return (
            f"the threshold {self.threshold:.4g} was {choice}: there {self.right:,} of "
            f"{self.answered:,} answers are right ({accuracy}); it is frozen, so judge by test"
        )


def choose_threshold(
    rows: Sequence[Row], *, coverage: float, precision: float | None
) -> Abstention:
    """Choose on answers with truths; `precision`, where given, replaces `coverage`."""
    judged = judge(rows)
    if precision is None:
        criterion = f"answer {100 * coverage:g} % of them"
        threshold = threshold_for_coverage(judged, coverage)
    else:
        criterion = f"be right in {100 * precision:g} % of its answers"
        found = threshold_for_precision(judged, precision)
        threshold = NEVER if found is None else found
    is_answered = judged.confidence >= threshold
    return Abstention(
        threshold=threshold,
        n=len(judged),
        answered=int(is_answered.sum()),
        right=int(judged.correct[is_answered].sum()),
        wanted=criterion,
        curve=tuple(_thin_risk_coverage(judged, keep=threshold)),
        bins=tuple(reliability_bins(judged)),
    )


def judge(rows: Sequence[Row]) -> JudgedAnswers:
    """Confidence of each answer, and whether it matches a truth exactly."""
    correct = [exact_match_and_f1(row["predicted"], row["truths"])[0] == 1.0 for row in rows]
    confidence = [row["confidence"] for row in rows]
    return rank_by_confidence(confidence, correct, groups=row_groups(rows))


def risk_tables(
    rows: Sequence[Row], *, threshold: float | None, split: str
) -> dict[str, list[Row]]:
    """Scores of selective prediction with their intervals, and the two curves of a split."""
    judged = judge(rows)
    estimates = [
        area_under_risk_coverage(judged, split=split),
        expected_calibration_error(judged, split=split),
    ]
    if threshold is not None:
        estimates += filter(None, [selective_accuracy(judged, threshold, split=split)])
    points = _thin_risk_coverage(judged, keep=threshold)
    return {
        "risk": [
            {("metric" if key == "name" else key): value for key, value in fields.items()}
            for fields in (estimate.as_dict() for estimate in estimates)
        ],
        "risk_coverage": [asdict(point) for point in points],
        "calibration": [asdict(each) for each in reliability_bins(judged)],
    }


def _contains(each: ReliabilityBin, confidence: float) -> bool:
    return each.low <= confidence < each.high or confidence == each.high == 1.0


def _thin_risk_coverage(judged: JudgedAnswers, *, keep: float | None) -> list[CoveragePoint]:
    points = risk_coverage(judged)
    return thin_curve(points, [point.threshold for point in points], keep=keep)


def thin_curve(
    points: Sequence[Point], thresholds: Iterable[float], *, keep: float | None
) -> list[Point]:
    """At most `CURVE_POINTS` points, with both ends and the one at the threshold `keep`."""
    if len(points) <= CURVE_POINTS:
        return list(points)
    indices = set(np.linspace(0, len(points) - 1, CURVE_POINTS - 1).round().astype(int).tolist())
    indices |= {index for index, threshold in enumerate(thresholds) if threshold == keep}
    return [points[index] for index in sorted(indices)]
