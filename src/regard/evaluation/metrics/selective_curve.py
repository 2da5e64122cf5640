"""Risk and coverage at thresholds on the confidence, each with its n and interval.

    coverage   answered / n                    risk   incorrect / answered

What `risk_coverage.py` has as a curve, for a person who chooses a threshold on it. A threshold that
was chosen on these items flatters itself there: another split judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from regard.evaluation.metrics.risk_coverage import (
    JudgedAnswers,
    risk_coverage,
    selective_accuracy,
)
from regard.evaluation.statistics.estimate import Estimate
from regard.evaluation.statistics.intervals import wilson_by_group
from regard.evaluation.statistics.item_groups import count_groups

MAX_POINTS = 160


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """What answering from a threshold on means."""

    threshold: float
    coverage: Estimate
    "Fraction of all items that are answered; n counts all."
    risk: Estimate
    "Fraction of the given answers that are wrong; n counts these."


def operating_points(
    judged: JudgedAnswers, *, split: str, items: str, max_points: int = MAX_POINTS
) -> list[OperatingPoint]:
    """By increasing coverage: at every distinct confidence, or at `max_points` of them."""
    thresholds = [point.threshold for point in risk_coverage(judged)]
    return [
        operating_point(judged, threshold, split=split, items=items)
        for threshold in _thin(thresholds, max_points)
    ]


def operating_point(
    judged: JudgedAnswers, threshold: float, *, split: str, items: str
) -> OperatingPoint:
    """At a threshold that at least one answer reaches."""
    accuracy = selective_accuracy(judged, threshold, split=split, items=items)
    if accuracy is None:
        raise ValueError(f"no confidence reaches {threshold}")
    is_answered = judged.confidence >= threshold
    coverage = Estimate.over_items(
        "coverage",
        float(is_answered.mean()),
        wilson_by_group(is_answered, judged.groups),
        n=len(judged),
        items=items,
        groups=count_groups(judged.groups),
        method="wilson-95%",
        facts={"split": split, "threshold": f"{threshold:.6g}"},
    )
    return OperatingPoint(threshold=threshold, coverage=coverage, risk=_risk(accuracy))


def _risk(accuracy: Estimate) -> Estimate:
    low, high = accuracy.low, accuracy.high
    return replace(
        accuracy,
        name="risk_answered",
        value=1 - accuracy.value,
        low=None if high is None else 1 - high,
        high=None if low is None else 1 - low,
        signature=accuracy.signature.replace(accuracy.name, "risk_answered", 1),
    )


def _thin(thresholds: Sequence[float], count: int) -> list[float]:
    """Evenly many of them, both ends included."""
    if len(thresholds) <= count:
        return list(thresholds)
    chosen = np.linspace(0, len(thresholds) - 1, count).round().astype(int)
    return [thresholds[index] for index in np.unique(chosen).tolist()]
