"""Risk and coverage: how often a model is wrong when it answers only what it is sure of.

    answered         items with confidence ≥ threshold
    coverage         answered / n
    risk             wrong / answered
    AURC             mean of the risk over coverages 1/n, 2/n, … 1      Geifman and El-Yaniv, 2017
    ECE              Σ_b n_b/n · |accuracy_b − confidence_b|            Guo et al., 2017

Equal confidences are answered together; where the AURC needs an order among them it takes the mean
over all orders, so that the order of a file decides nothing. A threshold belongs to the part it was
chosen on: it is chosen on one and reported on another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.core.errors import UserError
from regard.evaluation.statistics.estimate import Estimate, signature
from regard.evaluation.statistics.intervals import Bootstrap, ItemStatistics, wilson
from regard.evaluation.statistics.seed_tables import Values


@dataclass(frozen=True, eq=False)
class JudgedAnswers:
    """Confidence of each answer, and whether it is right; the most confident first."""

    confidence: Values
    correct: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.correct)


@dataclass(frozen=True, kw_only=True)
class CoveragePoint:
    """What answering at this threshold means."""

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


def rank_by_confidence(confidence: ArrayLike, correct: ArrayLike) -> JudgedAnswers:
    """Both checked, and put in order."""
    sure, good = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.bool_)
    if sure.ndim != 1 or sure.shape != good.shape or not len(sure):
        raise UserError(
            f"{sure.size:,} confidences came with {good.size:,} judgements",
            topic="evaluation",
            hint="Both must describe the same answers, at least one.",
        )
    if not np.isfinite(sure).all():
        raise UserError("a confidence is no finite number", topic="evaluation")
    # Right answers first among equals: every order of a file gives one table.
    order = np.lexsort((~good, -sure))
    return JudgedAnswers(sure[order], good[order])


def risk_coverage(judged: JudgedAnswers) -> list[CoveragePoint]:
    """One point a distinct confidence, from the fewest answers to all."""
    n = len(judged)
    ends = np.flatnonzero(np.append(np.diff(judged.confidence) != 0, True)) + 1
    wrong = np.cumsum(~judged.correct)
    return [
        CoveragePoint(
            threshold=float(judged.confidence[end - 1]),
            coverage=end / n,
            risk=float(wrong[end - 1]) / end,
            answered=int(end),
        )
        for end in ends
    ]


def area_under_risk_coverage(
    judged: JudgedAnswers,
    *,
    split: str,
    items: str = "questions",
    bootstrap: Bootstrap | None = None,
) -> Estimate:
    """AURC with its interval: 0 is best, a random order gives the share of wrong answers."""
    bootstrap = bootstrap or Bootstrap()
    _, ties = np.unique(-judged.confidence, return_inverse=True)
    statistics = np.stack([ties.astype(np.float64), (~judged.correct).astype(np.float64)])
    [value] = _areas(statistics)
    [interval] = bootstrap.intervals(statistics, _areas)
    low, high = interval or (None, None)
    return Estimate(
        name="aurc",
        value=float(value),
        low=low,
        high=high,
        n=len(judged),
        items=items,
        signature=signature("aurc", split=split, interval=bootstrap if interval else "none"),
        no_interval="" if interval else "one item cannot show how items vary",
    )


def threshold_for_coverage(judged: JudgedAnswers, coverage: float) -> float:
    """The highest threshold that still answers at least this share."""
    if not 0 < coverage <= 1:
        raise UserError(
            f"coverage {coverage} is not a share above 0",
            topic="evaluation",
            hint="Give 0.5 to answer half of the questions.",
        )
    # 0.07 · 100 is 7.000000000000001, and would ask for an eighth answer.
    answered = max(1, math.ceil(coverage * len(judged) - 1e-9))
    return float(judged.confidence[answered - 1])


def threshold_for_precision(judged: JudgedAnswers, precision: float) -> float | None:
    """The threshold with most answers, at least this share of them right; None: there is none."""
    enough = [point for point in risk_coverage(judged) if 1 - point.risk >= precision - 1e-12]
    return enough[-1].threshold if enough else None


def selective_accuracy(
    judged: JudgedAnswers,
    threshold: float,
    *,
    split: str,
    items: str = "questions",
    confidence: float = 0.95,
) -> Estimate | None:
    """Share right among those answered at the threshold; n counts these. None: it answers none."""
    answered = judged.confidence >= threshold
    n, correct = int(answered.sum()), int(judged.correct[answered].sum())
    if not n:
        return None
    low, high = wilson(correct, n, confidence=confidence)
    return Estimate(
        name="accuracy_answered",
        value=correct / n,
        low=low,
        high=high,
        n=n,
        items=items,
        signature=signature(
            "accuracy_answered",
            split=split,
            threshold=f"{threshold:.6g}",
            coverage=f"{n}/{len(judged)}",
            interval=f"wilson-{100 * confidence:.4g}%",
        ),
    )


def reliability_bins(judged: JudgedAnswers, *, bins: int = 10) -> list[ReliabilityBin]:
    """Bins of one width over confidences 0 to 1; empty ones are left out."""
    if judged.confidence.min() < 0 or judged.confidence.max() > 1:
        raise UserError(
            "calibration needs confidences between 0 and 1",
            topic="evaluation",
            hint="Give probabilities, not logits or log-probabilities.",
        )
    edges = np.linspace(0, 1, bins + 1)
    places = np.clip(np.searchsorted(edges, judged.confidence, side="right") - 1, 0, bins - 1)
    found = []
    for place in np.unique(places):
        own = places == place
        n, correct = int(own.sum()), int(judged.correct[own].sum())
        low, high = wilson(correct, n)
        found.append(
            ReliabilityBin(
                low=float(edges[place]),
                high=float(edges[place + 1]),
                n=n,
                confidence=float(judged.confidence[own].mean()),
                accuracy=correct / n,
                accuracy_low=low,
                accuracy_high=high,
            )
        )
    return found


def expected_calibration_error(
    judged: JudgedAnswers, *, split: str, items: str = "questions", bins: int = 10
) -> Estimate:
    """ECE. No interval: drawing items anew adds noise to each bin, and noise only raises ECE."""
    table = reliability_bins(judged, bins=bins)
    gaps = sum(one.n * abs(one.accuracy - one.confidence) for one in table)
    return Estimate(
        name="ece",
        value=gaps / len(judged),
        low=None,
        high=None,
        n=len(judged),
        items=items,
        signature=signature("ece", split=split, bins=bins, interval="none"),
        no_interval="a bootstrap draws it too high; the bins have intervals",
    )


def _areas(statistics: ItemStatistics) -> Values:
    """(2, …, n) place among the distinct confidences, and wrong or not, to (1, …) areas."""
    n = statistics.shape[-1]
    ties, wrong = (column.reshape(-1, n) for column in statistics)
    # One number a group of equal confidences and draw, in the order of both.
    groups = ties.astype(np.int64) + n * np.arange(len(ties))[:, None]
    sizes = np.bincount(groups.ravel(), minlength=n * len(ties))
    failed = np.bincount(groups.ravel(), weights=wrong.ravel(), minlength=n * len(ties))
    # Each of a group counts as the group's mean: the mean over all orders within it.
    order = np.sort(groups, axis=-1)
    means = failed[order] / sizes[order]
    risks = np.cumsum(means, axis=-1) / np.arange(1, n + 1)
    return np.asarray(risks.mean(axis=-1).reshape(1, *statistics.shape[1:-1]))
