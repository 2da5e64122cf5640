"""Prediction health: constant and nearly constant predictions of a classifier.

A model that always predicts the majority class scores that class's frequency, which can pass for
learning (BoolQ's dev set: 2,033 of 3,270, so 62.17 %). Labels are numbers or texts; the model
itself is not needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.core.errors import UserError

NEARLY_CONSTANT_RATIO = 0.1
"Below this ratio of predicted to true counts of all other labels, predictions hardly vary."
COLLAPSED_RATIO = 0.01
"Below this ratio, the predictions have collapsed to one class."
MAX_COINCIDENCE = 0.05
"Probability of an exact match with the majority frequency above which it may be chance."
MIN_OTHER_ROWS = 5
"Minimum rows with another true label before constant predictions count as a collapse."


@dataclass(frozen=True)
class PredictionCounts:
    """Counts of predicted and of true labels."""

    predicted: Counter[Hashable]
    true: Counter[Hashable]
    correct: int

    @property
    def n(self) -> int:
        return self.true.total()

    @cached_property
    def most_predicted(self) -> tuple[Hashable, int]:
        """The most frequent predicted label and its count."""
        return self.predicted.most_common(1)[0]

    @cached_property
    def majority(self) -> tuple[Hashable, int]:
        """The most frequent true label and its count."""
        return self.true.most_common(1)[0]

    @property
    def is_constant(self) -> bool:
        return len(self.predicted) == 1

    @property
    def is_nearly_constant(self) -> bool:
        """Whether all labels but one are predicted far more rarely than they are true."""
        return self.other_labels_ratio < NEARLY_CONSTANT_RATIO

    @property
    def other_labels_ratio(self) -> float:
        """Predicted over true count of all labels but the most predicted one."""
        label, times = self.most_predicted
        true = self.n - self.true[label]
        return (self.n - times) / true if true else math.inf

    @property
    def equals_majority(self) -> bool:
        """Whether exactly as many are correct as the majority class has, unlikely by chance."""
        _, count = self.majority
        if self.correct != count:
            return False
        from scipy.stats import binom  # a second of import time

        return bool(binom.pmf(count, self.n, count / self.n) < MAX_COINCIDENCE)


def prediction_health(
    predictions: Sequence[Hashable], labels: Sequence[Hashable]
) -> tuple[str, ...]:
    """One sentence per problem.

    `accuracy 62.17 % is exactly the frequency of the majority class: it predicts True for 3,270 of
    3,270`
    """
    if len(predictions) != len(labels) or not labels:
        raise UserError(
            f"{len(predictions):,} predictions do not match {len(labels):,} labels",
            topic="evaluation",
            hint="Give one prediction for each label, and at least one.",
        )
    correct = sum(one == other for one, other in zip(predictions, labels, strict=True))
    counts = PredictionCounts(Counter(predictions), Counter(labels), correct)
    return (*_one_label(counts), *_constant_predictions(counts))


def collapse_warning(predictions: Sequence[Hashable], labels: Sequence[Hashable]) -> str:
    """How the predictions have collapsed to one class; empty where they have not.

    `all 200 rows are answered '1', the majority class (55.8 %)`
    """
    counts = PredictionCounts(Counter(predictions), Counter(labels), correct=0)
    if not counts.other_labels_ratio < COLLAPSED_RATIO:
        return ""
    label, times = counts.most_predicted
    true = counts.true[label]
    if counts.n - true < MIN_OTHER_ROWS:
        return ""
    which = "the majority class" if true == counts.majority[1] else "one class"
    rows = f"all but {counts.n - times:,} of" if times < counts.n else "all"
    answer = f"{label!r}, {which} ({_percent(true / counts.n, 1)})"
    return f"{rows} {counts.n:,} rows are answered {answer}"


def _one_label(counts: PredictionCounts) -> tuple[str, ...]:
    if len(counts.true) > 1:
        return ()
    label, _ = counts.majority
    return (f"all {counts.n:,} labels are {label!r}: accuracy says nothing here",)


def _constant_predictions(counts: PredictionCounts) -> tuple[str, ...]:
    label, times = counts.most_predicted
    majority, majority_count = counts.majority
    accuracy = f"accuracy {_percent(counts.correct / counts.n, 2)}"
    predicted = f"it predicts {label!r} for {times:,} of {counts.n:,}"
    if counts.is_constant and len(counts.true) > 1:
        if counts.correct == majority_count:
            return (f"{accuracy} is exactly the frequency of the majority class: {predicted}",)
        return (f"{accuracy} is the frequency of one label: {predicted}",)
    if counts.is_nearly_constant:
        truth = f"which is true of {counts.true[label]:,}"
        return (f"predictions hardly vary: {predicted}, {truth} ({accuracy})",)
    if counts.equals_majority and not counts.is_constant:
        return (
            f"{accuracy} is exactly the frequency of the majority class {majority!r} "
            f"({majority_count:,} of {counts.n:,}), though {len(counts.predicted):,} labels are "
            "predicted: check that predictions and labels belong together",
        )
    return ()


def _percent(fraction: float, decimals: int) -> str:
    return f"{100 * fraction:.{decimals}f} %"
