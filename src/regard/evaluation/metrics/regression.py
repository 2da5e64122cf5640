"""Regression: how near predicted numbers are to the true ones.

    r2         1 − Σ (y − ŷ)² / Σ (y − ȳ)²      fraction of the variance explained; 0: no better
                                                than the mean of the true numbers, which it uses
    pearson    linear correlation               blind to a wrong scale or offset
    spearman   pearson of the ranks
    mae        Σ |y − ŷ| / n                    in the unit of the numbers

Ranks are taken once over the whole table (`similarity.py`). Where all true numbers are equal there
is no variance to explain, and r2 is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.evaluation.metrics.fields import numbers
from regard.evaluation.metrics.metric import UNBOUNDED, Metric, Row, metric_kind, ratio_score
from regard.evaluation.metrics.similarity import MOMENTS, SimilarityMetric, correlation
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values

_Y, _YY, _N = 2 * MOMENTS, 2 * MOMENTS + 1, 2 * MOMENTS + 2
_SQUARED_ERROR, _ABSOLUTE_ERROR = 2 * MOMENTS + 3, 2 * MOMENTS + 4


@metric_kind(
    "regression",
    perfect=[{"predicted": truth, "truth": truth} for truth in (0.5, 3, 5, 1.5)],
    bad=[
        {"predicted": predicted, "truth": truth}
        for predicted, truth in ((2.5, 0.5), (2.9, 3), (1, 5), (2, 1.5))
    ],
)
@dataclass(frozen=True, kw_only=True)
class RegressionMetric(Metric):
    """Explained variance, correlations and mean absolute error of predicted numbers.

    Uses the fields `truth` and `predicted`, a number each."""

    score_names: ClassVar = ("r2", "pearson", "spearman", "mae")
    lower_is_better: ClassVar = ("mae",)
    score_bounds: ClassVar = {
        "r2": (-UNBOUNDED, 1.0),
        "pearson": (-1.0, 1.0),
        "spearman": (-1.0, 1.0),
        "mae": (0.0, UNBOUNDED),
    }
    has_independent_items: ClassVar = False

    items: str = "texts"

    def statistics(self, rows: Sequence[Row]) -> Values:
        truth, predicted = numbers(rows, "truth"), numbers(rows, "predicted")
        # Centred and scaled, so that the sum of squares loses no digits.
        scale = float(np.abs(truth - truth.mean()).max()) or 1.0
        y, error = (truth - truth.mean()) / scale, (truth - predicted) / scale
        ones = np.ones(len(truth))
        own = np.stack([y, y * y, ones, error * error, np.abs(truth - predicted)])
        return np.concatenate([SimilarityMetric().statistics(rows), own])

    def score_function(self, score_name: str) -> ScoreFunction:
        functions: dict[str, ScoreFunction] = {
            "r2": _explained_variance,
            "pearson": lambda sums: correlation(sums[MOMENTS : 2 * MOMENTS]),
            "spearman": lambda sums: correlation(sums[:MOMENTS]),
            "mae": ratio_score(_ABSOLUTE_ERROR, _N),
        }
        return functions[self.check_name(score_name)]


def _explained_variance(sums: Values) -> Values:
    y, yy, n = sums[_Y], sums[_YY], sums[_N]
    variation = yy - y * y / n
    # A resample of equal numbers leaves rounding only.
    varies = variation > 1e-12 * np.maximum(n, 1.0)
    return np.asarray(
        np.where(varies, 1.0 - sums[_SQUARED_ERROR] / np.where(varies, variation, 1.0), 0.0)
    )
