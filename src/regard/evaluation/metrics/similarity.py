"""Similarity: correlation of a model's scores with human scores.

    pearson    Σ xy / √(Σ x² Σ y²), x and y centred
    spearman   pearson of the ranks, ties sharing their mean rank    Spearman, 1904

Ranks are taken once over the whole table, so both are functions of sums; the bootstrap resamples
pairs with these ranks. Constant scores have correlation 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.evaluation.metrics.fields import numbers
from regard.evaluation.metrics.metric import Metric, Row, metric_kind
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values

MOMENTS = 6
"Statistics of one correlation: x, y, x², y², xy and 1."


@metric_kind(
    "similarity",
    perfect=[{"predicted": truth / 5, "truth": truth} for truth in (0, 3, 5, 1)],
    bad=[
        {"predicted": predicted, "truth": truth}
        for predicted, truth in ((0.7, 0), (0.8, 3), (0.1, 5), (0.3, 1))
    ],
)
@dataclass(frozen=True, kw_only=True)
class SimilarityMetric(Metric):
    """Rank and linear correlation with human scores.

    Uses the fields `truth` and `predicted`, a number each."""

    score_names: ClassVar = ("spearman", "pearson")
    score_bounds: ClassVar = {"spearman": (-1.0, 1.0), "pearson": (-1.0, 1.0)}
    has_independent_items: ClassVar = False

    items: str = "pairs"

    def statistics(self, rows: Sequence[Row]) -> Values:
        from scipy.stats import rankdata  # a second of import time

        scores = [numbers(rows, field) for field in ("truth", "predicted")]
        ranks = [np.asarray(rankdata(values), dtype=np.float64) for values in scores]
        return np.concatenate([moments(*ranks), moments(*scores)])

    def score_function(self, score_name: str) -> ScoreFunction:
        start = MOMENTS * self.score_names.index(self.check_name(score_name))

        def score_function(sums: Values) -> Values:
            return correlation(sums[start : start + MOMENTS])

        return score_function


def correlation(sums: Values) -> Values:
    """(6, …) sums of x, y, x², y², xy and 1 to Pearson's correlation."""
    x, y, xx, yy, xy, n = sums
    covariance = xy / n - x * y / n**2
    var_x, var_y = xx / n - (x / n) ** 2, yy / n - (y / n) ** 2
    # The variance over the whole table is 1; a resample of equal items leaves rounding only.
    varies = (var_x > 1e-12) & (var_y > 1e-12)
    scale = np.sqrt(np.where(varies, var_x * var_y, 1.0))
    return np.asarray(np.where(varies, np.clip(covariance / scale, -1.0, 1.0), 0.0))


def moments(x: Values, y: Values) -> Values:
    """(6,n): x, y, x², y², xy and 1 of each item, of standardised x and y."""
    x, y = _standardised(x), _standardised(y)
    return np.stack([x, y, x * x, y * y, x * y, np.ones(len(x))])


def _standardised(values: Values) -> Values:
    """Centred and divided by the standard deviation: sums of squares then lose no digits."""
    if (values == values[0]).all():
        return np.zeros(len(values))
    # Scaled first, so that squares of very large or small scores do not over- or underflow.
    centred = values - values.mean()
    centred = centred / np.abs(centred).max()
    return np.asarray(centred / centred.std())
