"""Masked pixels: squared error of their reconstruction.

mean_squared_error   Σ (predicted − true)² / pixels        lower is better; intensities 0 to 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.evaluation.metrics.fields import field_error
from regard.evaluation.metrics.metric import UNBOUNDED, Metric, Row, metric_kind, ratio_score
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values

MEAN_SQUARED_ERROR = "mean_squared_error"


@metric_kind(
    "pixels",
    perfect=[{"predicted": truth, "truth": truth} for truth in ([0.0, 1.0], [0.5], [0.2, 0.4])],
    bad=[
        {"predicted": [1.0, 0.5], "truth": [0.0, 1.0]},
        {"predicted": [0.4], "truth": [0.5]},
        {"predicted": [0.2, 0.8], "truth": [0.2, 0.4]},
    ],
)
@dataclass(frozen=True, kw_only=True)
class PixelMetric(Metric):
    """Squared error of reconstructed pixels.

    Uses the fields `predicted` and `truth`, lists of equal length."""

    score_names: ClassVar = (MEAN_SQUARED_ERROR,)
    lower_is_better: ClassVar = score_names
    score_bounds: ClassVar = {MEAN_SQUARED_ERROR: (0.0, UNBOUNDED)}

    items: str = "images"

    def statistics(self, rows: Sequence[Row]) -> Values:
        """(2, n): sum of squared errors, and number of pixels."""
        return np.array([_squared_error(rows, number) for number in range(len(rows))]).T

    def score_function(self, score_name: str) -> ScoreFunction:
        self.check_name(score_name)
        return ratio_score(0, 1)


def _squared_error(rows: Sequence[Row], number: int) -> tuple[float, float]:
    predicted, true = (_numbers(rows, number, field) for field in ("predicted", "truth"))
    if len(predicted) != len(true) or not len(true):
        raise field_error(
            rows, number, f"{len(predicted):,} pixels are predicted, {len(true):,} are true"
        )
    return float(np.square(predicted - true).sum()), float(len(true))


def _numbers(rows: Sequence[Row], number: int, field: str) -> Values:
    values = rows[number].get(field)
    is_numeric = isinstance(values, list) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        for value in values
    )
    if not is_numeric:
        raise field_error(rows, number, f"{field} is {values!r}, not a list of finite numbers")
    return np.array(values, dtype=np.float64)
