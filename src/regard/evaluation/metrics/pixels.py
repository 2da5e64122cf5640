"""Hidden pixels: how far what a model tells of them is from what they hold.

mean_squared_error   Σ (told − true)² / pixels        lower is better; ink from 0 to 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.evaluation.metrics.fields import field_error
from regard.evaluation.metrics.metric import Metric, Row, ratio_score
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values

MEAN_SQUARED_ERROR = "mean_squared_error"


@dataclass(frozen=True, kw_only=True)
class PixelMetric(Metric):
    """Reads `predicted` and `truth`, lists of as many numbers."""

    kind: ClassVar[str] = "pixels"

    items: str = "images"

    @property
    def score_names(self) -> tuple[str, ...]:
        return (MEAN_SQUARED_ERROR,)

    def statistics(self, rows: Sequence[Row]) -> Values:
        """(2, n): squared errors added up, and how many pixels."""
        return np.array([_errors(rows, number) for number in range(len(rows))]).T

    def score_function(self, score_name: str) -> ScoreFunction:
        self.check_name(score_name)
        return ratio_score(0, 1)

    def higher_is_better(self, score_name: str) -> bool:
        return False


def _errors(rows: Sequence[Row], number: int) -> tuple[float, float]:
    told, true = (_numbers(rows, number, field) for field in ("predicted", "truth"))
    if len(told) != len(true) or not len(true):
        raise field_error(rows, number, f"{len(told):,} pixels told where {len(true):,} are true")
    return float(np.square(told - true).sum()), float(len(true))


def _numbers(rows: Sequence[Row], number: int, field: str) -> Values:
    given = rows[number].get(field)
    plain = isinstance(given, list) and all(
        isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one)
        for one in given
    )
    if not plain:
        raise field_error(rows, number, f"{field} is {given!r}, not a list of finite numbers")
    return np.array(given, dtype=np.float64)
