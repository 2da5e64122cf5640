"""Selective prediction and calibration: risk, coverage, AURC and ECE.

    answered         items with confidence ≥ threshold
    coverage         answered / n
    risk             incorrect / answered
    AURC             mean of the risk over coverages 1/n, 2/n, … 1      Geifman and El-Yaniv, 2017
    ECE              Σ_b n_b/n · |accuracy_b − confidence_b|            Guo et al., 2017

Intervals are over groups of items where the answers have them.

Answers of equal confidence are given together; the AURC, which needs an order among them, is the
mean over all orders, so that file order does not matter. A threshold is chosen on one split and
reported on another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.core.errors import UserError
from regard.evaluation.statistics.estimate import Estimate, signature
from regard.evaluation.statistics.intervals import Bootstrap, ItemStatistics, wilson_by_group
from regard.evaluation.statistics.item_groups import (
    GroupNumbers,
    count_groups,
    effective_groups,
    select_groups,
)
from regard.evaluation.statistics.seed_tables import Values

MAX_POINTS = 160
"Of a curve whose points have intervals."


@dataclass(frozen=True, eq=False)
class JudgedAnswers:
    """Confidence and correctness of each answer, the most confident first."""

    confidence: Values
    correct: NDArray[np.bool_]
    groups: GroupNumbers | None = None
    "The group of each answer; None where every item stands alone."

    def __len__(self) -> int:
        return len(self.correct)


@dataclass(frozen=True, kw_only=True)
class CoveragePoint:
    """Coverage and risk at one threshold."""

    threshold: float
    coverage: float
    risk: float
    answered: int


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """Answers with low ≤ confidence < high (≤ in the last bin)."""

    low: float
    high: float
    n: int
    confidence: float
    "Mean of the bin."
    accuracy: float
    accuracy_low: float
    accuracy_high: float


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """What answering from a threshold on means."""

    threshold: float
    coverage: Estimate
    "Fraction of all items that are answered; n counts all."
    risk: Estimate
    "Fraction of the given answers that are wrong; n counts these."


def rank_by_confidence(
    confidence: ArrayLike, correct: ArrayLike, *, groups: GroupNumbers | None = None
) -> JudgedAnswers:
    """Validated, and sorted by decreasing confidence."""
    confidences = np.asarray(confidence, dtype=np.float64)
    is_correct = np.asarray(correct, dtype=np.bool_)
    if confidences.ndim != 1 or confidences.shape != is_correct.shape or not len(confidences):
        raise UserError(
            f"{confidences.size:,} confidences came with {is_correct.size:,} judgements",
            topic="evaluation",
            hint="Both must describe the same answers, at least one.",
        )
    if not np.isfinite(confidences).all():
        raise UserError("a confidence is not a finite number", topic="evaluation")
    # Correct answers first among ties: any file order gives the same table.
    order = np.lexsort((~is_correct, -confidences))
    its_groups = None if groups is None else groups[order]
    return JudgedAnswers(confidences[order], is_correct[order], its_groups)


def risk_coverage(judged: JudgedAnswers) -> list[CoveragePoint]:
    """One point per distinct confidence, by increasing coverage."""
    n = len(judged)
    answered_counts = np.flatnonzero(np.append(np.diff(judged.confidence) != 0, True)) + 1
    incorrect = np.cumsum(~judged.correct)
    return [
        CoveragePoint(
            threshold=float(judged.confidence[answered - 1]),
            coverage=answered / n,
            risk=float(incorrect[answered - 1]) / answered,
            answered=int(answered),
        )
        for answered in answered_counts
    ]


def area_under_risk_coverage(
    judged: JudgedAnswers,
    *,
    split: str,
    items: str = "questions",
    bootstrap: Bootstrap | None = None,
) -> Estimate:
    """AURC: 0 is best, a random order gives the error rate."""
    bootstrap = bootstrap or Bootstrap()
    _, ties = np.unique(-judged.confidence, return_inverse=True)
    statistics = np.stack([ties.astype(np.float64), (~judged.correct).astype(np.float64)])
    [value] = _areas(statistics)
    if judged.groups is None:
        [interval] = bootstrap.intervals(statistics, _areas)
    else:
        [interval] = bootstrap.intervals(
            np.arange(judged.groups.max() + 1, dtype=np.float64)[None],
            partial(_areas_of_groups, statistics, judged.groups),
            effective_groups=effective_groups(judged.groups),
        )
    return Estimate.over_items(
        "aurc",
        float(value),
        interval,
        n=len(judged),
        items=items,
        groups=count_groups(judged.groups),
        method=bootstrap,
        facts={"split": split},
    )


def threshold_for_coverage(judged: JudgedAnswers, coverage: float) -> float:
    """The highest threshold that answers at least this fraction."""
    if not 0 < coverage <= 1:
        raise UserError(
            f"coverage {coverage} is not a fraction above 0",
            topic="evaluation",
            hint="Give 0.5 to answer half of the questions.",
        )
    # 0.07 · 100 is 7.000000000000001, and would require an eighth answer.
    answered = max(1, math.ceil(coverage * len(judged) - 1e-9))
    return float(judged.confidence[answered - 1])


def threshold_for_precision(judged: JudgedAnswers, precision: float) -> float | None:
    """The lowest threshold with at least this precision; None where there is none."""
    precise = [point for point in risk_coverage(judged) if 1 - point.risk >= precision - 1e-12]
    return precise[-1].threshold if precise else None


def selective_accuracy(
    judged: JudgedAnswers,
    threshold: float,
    *,
    split: str,
    items: str = "questions",
    confidence: float = 0.95,
) -> Estimate | None:
    """Accuracy of the answers given at the threshold, which n counts; None if it gives none."""
    answered = judged.confidence >= threshold
    n = int(answered.sum())
    if not n:
        return None
    groups = select_groups(judged.groups, answered)
    return Estimate.over_items(
        "accuracy_answered",
        float(judged.correct[answered].mean()),
        wilson_by_group(judged.correct[answered], groups, confidence=confidence),
        n=n,
        items=items,
        groups=count_groups(groups),
        method=f"wilson-{100 * confidence:.4g}%",
        facts={
            "split": split,
            "threshold": f"{threshold:.6g}",
            "coverage": f"{n}/{len(judged)}",
        },
    )


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


def reliability_bins(judged: JudgedAnswers, *, bins: int = 10) -> list[ReliabilityBin]:
    """Bins of equal width over confidences 0 to 1; empty bins are omitted."""
    if judged.confidence.min() < 0 or judged.confidence.max() > 1:
        raise UserError(
            "calibration needs confidences between 0 and 1",
            topic="evaluation",
            hint="Give probabilities, not logits or log-probabilities.",
        )
    edges = np.linspace(0, 1, bins + 1)
    bin_of_answer = np.clip(
        np.searchsorted(edges, judged.confidence, side="right") - 1, 0, bins - 1
    )
    table = []
    for index in np.unique(bin_of_answer):
        in_bin = bin_of_answer == index
        n = int(in_bin.sum())
        low, high = wilson_by_group(judged.correct[in_bin], select_groups(judged.groups, in_bin))
        table.append(
            ReliabilityBin(
                low=float(edges[index]),
                high=float(edges[index + 1]),
                n=n,
                confidence=float(judged.confidence[in_bin].mean()),
                accuracy=float(judged.correct[in_bin].mean()),
                accuracy_low=low,
                accuracy_high=high,
            )
        )
    return table


def expected_calibration_error(
    judged: JudgedAnswers, *, split: str, items: str = "questions", bins: int = 10
) -> Estimate:
    """ECE. No interval: resampling adds noise to each bin, and noise only raises the ECE."""
    table = reliability_bins(judged, bins=bins)
    gaps = sum(row.n * abs(row.accuracy - row.confidence) for row in table)
    return Estimate(
        name="ece",
        value=gaps / len(judged),
        low=None,
        high=None,
        n=len(judged),
        items=items,
        groups=count_groups(judged.groups),
        signature=signature("ece", split=split, bins=bins, interval="none"),
        no_interval="a bootstrap would bias it upwards; the bins have intervals",
    )


def _areas_of_groups(statistics: Values, groups: GroupNumbers, draws: Values) -> Values:
    """(1, …, g) numbers of resampled groups to (1, …) areas; resamples differ in their n."""
    order = np.argsort(groups, kind="stable")
    answers = np.split(order, np.cumsum(np.bincount(groups))[:-1])
    areas = [
        _areas(statistics[:, np.concatenate([answers[int(number)] for number in draw])])
        for draw in draws.reshape(-1, draws.shape[-1])
    ]
    return np.reshape(areas, (1, *draws.shape[1:-1]))


def _areas(statistics: ItemStatistics) -> Values:
    """(2, …, n) rank among the distinct confidences, and incorrect or not, to (1, …) areas."""
    n = statistics.shape[-1]
    ties, incorrect = (row.reshape(-1, n) for row in statistics)
    # One id per resample and group of equal confidences, increasing in both.
    groups = ties.astype(np.int64) + n * np.arange(len(ties))[:, None]
    sizes = np.bincount(groups.ravel(), minlength=n * len(ties))
    errors = np.bincount(groups.ravel(), weights=incorrect.ravel(), minlength=n * len(ties))
    # Each answer of a group counts as the group's mean: the mean over all orders within it.
    order = np.sort(groups, axis=-1)
    means = errors[order] / sizes[order]
    risks = np.cumsum(means, axis=-1) / np.arange(1, n + 1)
    return np.asarray(risks.mean(axis=-1).reshape(1, *statistics.shape[1:-1]))


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
