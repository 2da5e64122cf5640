"""Prediction health: does a classifier tell anything, or does it always say the same?

A model that always names the most frequent label scores that label's share, and looks as if it had
learnt (BoolQ's dev set: 2,033 of 3,270, so 62.17 %). Labels are numbers or words; nothing is known
here of the model that predicted them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.core.errors import UserError

NEARLY_CONSTANT_RATIO = 0.1
"Other labels than the commonest, predicted less often than this share of what the truth holds."
COLLAPSED_RATIO = 0.01
"The same share, below which the few others change nothing: one class is answered."
MAX_COINCIDENCE = 0.05
"Chance of meeting a share by accident, from which on an exact match is no longer remarkable."
MIN_OTHER_ROWS = 5
"Rows of other labels than the one that is always answered, below which that may be chance."


@dataclass(frozen=True)
class PredictionCounts:
    """What was predicted, beside what is true."""

    predicted: Counter[Hashable]
    true: Counter[Hashable]
    right: int

    @property
    def n(self) -> int:
        return self.true.total()

    @cached_property
    def favourite(self) -> tuple[Hashable, int]:
        """The label predicted most, and how often."""
        return self.predicted.most_common(1)[0]

    @cached_property
    def majority(self) -> tuple[Hashable, int]:
        """The label that is true most often, and how often."""
        return self.true.most_common(1)[0]

    @property
    def is_constant(self) -> bool:
        return len(self.predicted) == 1

    @property
    def is_nearly_constant(self) -> bool:
        """Whether all but one label are predicted far more rarely than they are true."""
        return self.others < NEARLY_CONSTANT_RATIO

    @property
    def others(self) -> float:
        """How often all labels but the favourite are predicted, by how often they are true."""
        label, times = self.favourite
        true = self.n - self.true[label]
        return (self.n - times) / true if true else math.inf

    @property
    def meets_the_majority(self) -> bool:
        """Whether as many are right as the majority class has, where that is hardly an accident."""
        _, most = self.majority
        if self.right != most:
            return False
        from scipy.stats import binom  # a second of import time

        return bool(binom.pmf(most, self.n, most / self.n) < MAX_COINCIDENCE)


def prediction_health(
    predictions: Sequence[Hashable], labels: Sequence[Hashable]
) -> tuple[str, ...]:
    """A sentence for each thing that is wrong; none where nothing is.

    `accuracy 62.17 % is exactly the share of the majority class: it predicts True for 3,270 of
    3,270`
    """
    if len(predictions) != len(labels) or not labels:
        raise UserError(
            f"{len(predictions):,} predictions cannot be held against {len(labels):,} labels",
            topic="evaluation",
            hint="Give one prediction for each label, and at least one.",
        )
    right = sum(one == other for one, other in zip(predictions, labels, strict=True))
    seen = PredictionCounts(Counter(predictions), Counter(labels), right)
    one_label = _one_label(seen)
    return (*one_label, *_same_answer(seen))


def collapse_warning(predictions: Sequence[Hashable], labels: Sequence[Hashable]) -> str:
    """How a classifier answers one class whatever it is asked; nothing where it does not.

    `all 200 rows are answered '1', the majority class (55.8 %)`
    """
    seen = PredictionCounts(Counter(predictions), Counter(labels), right=0)
    if not seen.others < COLLAPSED_RATIO:
        return ""
    label, times = seen.favourite
    share = seen.true[label]
    if seen.n - share < MIN_OTHER_ROWS:
        return ""
    which = "the majority class" if share == seen.majority[1] else "one class"
    but = f"all but {seen.n - times:,} of" if times < seen.n else "all"
    told = f"{label!r}, {which} ({_percent(share / seen.n, 1)})"
    return f"{but} {seen.n:,} rows are answered {told}"


def _one_label(seen: PredictionCounts) -> tuple[str, ...]:
    if len(seen.true) > 1:
        return ()
    label, _ = seen.majority
    return (f"every one of the {seen.n:,} labels is {label!r}: no accuracy here tells anything",)


def _same_answer(seen: PredictionCounts) -> tuple[str, ...]:
    label, times = seen.favourite
    name, most = seen.majority
    accuracy = f"accuracy {_percent(seen.right / seen.n, 2)}"
    says = f"it predicts {label!r} for {times:,} of {seen.n:,}"
    if seen.is_constant and len(seen.true) > 1:
        if seen.right == most:
            return (f"{accuracy} is exactly the share of the majority class: {says}",)
        return (f"{accuracy} is the share of one label: {says}",)
    if seen.is_nearly_constant:
        truth = f"which is true of {seen.true[label]:,}"
        return (f"predictions hardly vary: {says}, {truth} ({accuracy})",)
    if seen.meets_the_majority and not seen.is_constant:
        return (
            f"{accuracy} is exactly the share of the majority class {name!r} ({most:,} of "
            f"{seen.n:,}), though {len(seen.predicted):,} labels are predicted: check that "
            "predictions and labels belong together",
        )
    return ()


def _percent(share: float, decimals: int) -> str:
    return f"{100 * share:.{decimals}f} %"
