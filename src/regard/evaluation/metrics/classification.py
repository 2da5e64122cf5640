"""Classification: accuracy, macro-F1 and the correlation of labels, from counts of each class.

    accuracy   Σ tp / n
    macro_f1   mean over classes that are true at least once of  2 tp / (predicted + true)
    mcc        (n Σtp − Σ pᵏtᵏ) / √((n² − Σ pᵏ²)(n² − Σ tᵏ²))       R_K, Gorodkin, 2004

Two labels give Matthews' coefficient (1975). It is 0 where all predictions, or all truths, are
one label: such predictions tell nothing, however high their accuracy.

Truths that are none of the labels (unseen in training, say) can only be wrong: together they are
one more class, which nobody predicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from regard.core.errors import UserError, did_you_mean
from regard.evaluation.metrics.fields import field_error, texts
from regard.evaluation.metrics.metric import Metric, Row
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values


@dataclass(frozen=True)
class ClassificationMetric(Metric):
    """Reads `predicted`, one of the labels, and `truth`."""

    kind: ClassVar[str] = "classification"

    labels: tuple[str, ...]
    "Those that can be predicted."
    items: str = field(default="texts", kw_only=True)

    def __post_init__(self) -> None:
        labels = tuple(self.labels)
        if not labels or len(set(labels)) < len(labels):
            raise UserError(
                f"labels {', '.join(map(str, labels)) or '(none)'} are empty or name one twice",
                topic="evaluation",
            )
        # A file gives a list.
        object.__setattr__(self, "labels", labels)

    @property
    def score_names(self) -> tuple[str, ...]:
        return tuple(_STATISTICS)

    def is_correct(self, row: Row) -> bool:
        return bool(row["predicted"] == row["truth"])

    def statistics(self, rows: Sequence[Row]) -> Values:
        """(3 (k+1), n) for k labels and the rest: right, predicted, true, as ones and noughts."""
        places = {label: place for place, label in enumerate(self.labels)}
        labels = texts(rows, "predicted")
        for number, label in enumerate(labels):
            if label not in places:
                raise field_error(
                    rows, number, f"predicted {label!r} is no label{did_you_mean(label, places)}"
                )
        rest = len(places)
        predicted = _one_hot([places[label] for label in labels], rest + 1)
        true = _one_hot([places.get(label, rest) for label in texts(rows, "truth")], rest + 1)
        return np.concatenate([predicted * true, predicted, true])

    def score_function(self, score_name: str) -> ScoreFunction:
        return _STATISTICS[self.check_name(score_name)]

    def is_proportion(self, score_name: str) -> bool:
        return score_name == "accuracy"

    def facts(self, score_name: str, rows: Sequence[Row]) -> dict[str, object]:
        other = sum(truth not in self.labels for truth in texts(rows, "truth"))
        told: dict[str, object] = {"labels": len(self.labels)}
        return told | ({"truths_of_no_label": other} if other else {})


def _one_hot(places: Sequence[int], classes: int) -> Values:
    """(classes, n), 1 at the place of each item."""
    return np.eye(classes)[:, list(places)]


def _by_class(sums: Values) -> tuple[Values, Values, Values]:
    """(3 (k+1), …) to right, predicted and true, (k+1, …) each."""
    correct, predicted, true = sums.reshape(3, -1, *sums.shape[1:])
    return correct, predicted, true


def _accuracy(sums: Values) -> Values:
    correct, _, true = _by_class(sums)
    return np.asarray(correct.sum(axis=0) / true.sum(axis=0))


def _macro_f1(sums: Values) -> Values:
    correct, predicted, true = _by_class(sums)
    seen = true > 0
    # A class that is true somewhere has a denominator above nought.
    f1 = 2 * correct / np.where(seen, predicted + true, 1.0)
    return np.asarray((f1 * seen).sum(axis=0) / seen.sum(axis=0))


def _correlation(sums: Values) -> Values:
    correct, predicted, true = _by_class(sums)
    n = true.sum(axis=0)
    together = n * correct.sum(axis=0) - (predicted * true).sum(axis=0)
    spreads = (n**2 - (predicted**2).sum(axis=0)) * (n**2 - (true**2).sum(axis=0))
    return np.asarray(np.where(spreads > 0, together / np.sqrt(np.maximum(spreads, 1.0)), 0.0))


_STATISTICS: dict[str, ScoreFunction] = {
    "accuracy": _accuracy,
    "macro_f1": _macro_f1,
    "mcc": _correlation,
}
