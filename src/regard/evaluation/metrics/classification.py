"""Classification: accuracy, macro-F1 and Matthews correlation, from per-class counts.

    accuracy   Σ tp / n
    macro_f1   mean of 2 tp / (predicted + true) over classes with at least one true item
    mcc        (n Σtp − Σ pᵏtᵏ) / √((n² − Σ pᵏ²)(n² − Σ tᵏ²))       R_K, Gorodkin, 2004

With two labels R_K is Matthews' coefficient (1975). It is 0 where all predictions, or all truths,
have one label: constant predictions carry no information, however high their accuracy.

Truths outside the labels (unseen in training, for instance) form one extra class that is never
predicted, so they always count as errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from regard.core.errors import UserError, did_you_mean
from regard.evaluation.formatting import join_words
from regard.evaluation.metrics.fields import field_error, texts
from regard.evaluation.metrics.metric import Metric, Row, metric_kind
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values
from regard.evaluation.statistics.smoothing import Smoothing

MIN_ITEMS = 20
"Of a label: with fewer, a bootstrap of macro-F1 or MCC gives too narrow an interval."
MAX_NAMED = 3


@metric_kind(
    "classification",
    settings={"labels": ("no", "yes", "perhaps")},
    perfect=[{"predicted": truth, "truth": truth} for truth in ("no", "yes", "perhaps", "yes")],
    bad=[
        {"predicted": predicted, "truth": truth}
        for predicted, truth in (("yes", "no"), ("yes", "yes"), ("no", "perhaps"), ("no", "yes"))
    ],
)
@dataclass(frozen=True)
class ClassificationMetric(Metric):
    """Accuracy, macro-F1 and Matthews correlation of predicted labels.

    Uses the fields `predicted`, one of the labels, and `truth`."""

    score_names: ClassVar = ("accuracy", "macro_f1", "mcc")
    score_bounds: ClassVar = {"mcc": (-1.0, 1.0)}

    labels: tuple[str, ...]
    "Labels that can be predicted."
    items: str = field(default="texts", kw_only=True)

    def __post_init__(self) -> None:
        labels = tuple(self.labels)
        if not labels or len(set(labels)) < len(labels):
            raise UserError(
                f"labels {', '.join(map(str, labels)) or '(none)'} are empty or name one twice",
                topic="evaluation",
            )
        # JSON settings give a list.
        object.__setattr__(self, "labels", labels)

    def is_correct(self, row: Row) -> bool:
        return bool(row["predicted"] == row["truth"])

    def statistics(self, rows: Sequence[Row]) -> Values:
        """(3 (k+1), n) for k labels and the extra class: tp, predicted and true, one-hot."""
        indices = {label: index for index, label in enumerate(self.labels)}
        labels = texts(rows, "predicted")
        for number, label in enumerate(labels):
            if label not in indices:
                raise field_error(
                    rows,
                    number,
                    f"predicted {label!r} is not a label{did_you_mean(label, indices)}",
                )
        other = len(indices)
        predicted = _one_hot([indices[label] for label in labels], other + 1)
        true = _one_hot([indices.get(label, other) for label in texts(rows, "truth")], other + 1)
        return np.concatenate([predicted * true, predicted, true])

    def score_function(self, score_name: str) -> ScoreFunction:
        score_functions = {"accuracy": _accuracy, "macro_f1": _macro_f1, "mcc": _matthews}
        return score_functions[self.check_name(score_name)]

    def is_proportion(self, score_name: str) -> bool:
        return score_name == "accuracy"

    def smoothing(self, score_name: str, table: Values) -> Smoothing | None:
        """A correct and a wrong item of each label, where a label has few."""
        _, predicted, true = _by_class(table.sum(axis=1))
        labels = len(self.labels)
        if score_name == "accuracy" or labels < 2 or true[:labels].min() >= MIN_ITEMS:
            return None
        correct = _one_hot(range(labels), labels + 1)
        # A wrong answer is one of the other labels, as often as that one is answered.
        others = (predicted[:labels, None] + 1) * (1 - np.eye(labels))
        wrong = np.concatenate([others / others.sum(axis=0), np.zeros((1, labels))])
        pseudo_items = [[correct, correct, correct], [0 * correct, wrong, correct]]
        return Smoothing(
            np.concatenate([np.concatenate(one) for one in pseudo_items], axis=1), 1 / labels
        )

    def doubt(self, score_name: str, table: Values) -> str:
        """A label with few items: two methods that err on different labels may differ by it."""
        true = _by_class(table.sum(axis=1))[2][:-1]
        if score_name == "accuracy" or len(self.labels) < 2 or true.min() >= MIN_ITEMS:
            return ""
        rarest = self.labels[int(true.argmin())]
        return (
            f"only {true.min():.0f} of {table.shape[1]:,} {self.items} have the label {rarest}: "
            f"with fewer than {MIN_ITEMS}, methods that err on different labels differ too often "
            f"in {score_name.replace('_', ' ')}; compare accuracy too"
        )

    def why_no_interval(self, score_name: str, table: Values) -> str:
        """Labels that no item has: how often they are found is not known."""
        true = _by_class(table.sum(axis=1))[2][:-1]
        absent = [label for label, count in zip(self.labels, true, strict=True) if not count]
        if score_name == "accuracy" or not absent:
            return ""
        named = join_words(
            [
                *absent[:MAX_NAMED],
                *([f"{more} more"] if (more := len(absent) - MAX_NAMED) > 0 else []),
            ]
        )
        return f"none of the {self.items} has the label {named}"

    def facts(self, score_name: str, rows: Sequence[Row]) -> dict[str, object]:
        other = sum(truth not in self.labels for truth in texts(rows, "truth"))
        facts: dict[str, object] = {"labels": len(self.labels)}
        return facts | ({"truths_of_no_label": other} if other else {})


def _one_hot(indices: Sequence[int], classes: int) -> Values:
    """(classes, n), 1 at the class of each item."""
    return np.eye(classes)[:, list(indices)]


def _by_class(sums: Values) -> tuple[Values, Values, Values]:
    """(3 (k+1), …) to tp, predicted and true, (k+1, …) each."""
    correct, predicted, true = sums.reshape(3, -1, *sums.shape[1:])
    return correct, predicted, true


def _accuracy(sums: Values) -> Values:
    correct, _, true = _by_class(sums)
    return np.asarray(correct.sum(axis=0) / true.sum(axis=0))


def _macro_f1(sums: Values) -> Values:
    correct, predicted, true = _by_class(sums)
    present = true > 0
    # The denominator of a present class is above zero.
    f1 = 2 * correct / np.where(present, predicted + true, 1.0)
    return np.asarray((f1 * present).sum(axis=0) / present.sum(axis=0))


def _matthews(sums: Values) -> Values:
    correct, predicted, true = _by_class(sums)
    n = true.sum(axis=0)
    covariance = n * correct.sum(axis=0) - (predicted * true).sum(axis=0)
    variances = (n**2 - (predicted**2).sum(axis=0)) * (n**2 - (true**2).sum(axis=0))
    return np.asarray(
        np.where(variances > 0, covariance / np.sqrt(np.maximum(variances, 1.0)), 0.0)
    )
