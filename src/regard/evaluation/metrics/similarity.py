"""Similarity: whether scores that a model gives rise with those that people gave.

    pearson    Σ xy / √(Σ x² Σ y²), x and y about their means
    spearman   pearson of the ranks, equal scores sharing the mean of theirs    Spearman, 1904

Ranks are those within the whole table, so both are functions of sums; an interval draws pairs with
the ranks they have there. A model that gives every pair one score has no correlation: 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.evaluation.metrics.fields import numbers
from regard.evaluation.metrics.metric import Metric, Row
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values

_MOMENTS = 6
"Columns of one correlation: x, y, x², y², xy and 1."


@dataclass(frozen=True, kw_only=True)
class SimilarityMetric(Metric):
    """Reads `truth` and `predicted`, a number each."""

    kind: ClassVar[str] = "similarity"

    items: str = "pairs"

    @property
    def score_names(self) -> tuple[str, ...]:
        return ("spearman", "pearson")

    def statistics(self, rows: Sequence[Row]) -> Values:
        from scipy.stats import rankdata  # a second of import time

        scores = [numbers(rows, field) for field in ("truth", "predicted")]
        ranks = [np.asarray(rankdata(given), dtype=np.float64) for given in scores]
        return np.concatenate([_moments(*ranks), _moments(*scores)])

    def score_function(self, score_name: str) -> ScoreFunction:
        start = _MOMENTS * self.score_names.index(self.check_name(score_name))

        def score_function(sums: Values) -> Values:
            return correlation(sums[start : start + _MOMENTS])

        return score_function


def correlation(sums: Values) -> Values:
    """(6, …) sums of x, y, x², y², xy and 1 to Pearson's correlation."""
    x, y, xx, yy, xy, n = sums
    together, of_x, of_y = xy / n - x * y / n**2, xx / n - (x / n) ** 2, yy / n - (y / n) ** 2
    # Columns have variance 1 in the whole table; a draw of equal items leaves rounding alone.
    varies = (of_x > 1e-12) & (of_y > 1e-12)
    spread = np.sqrt(np.where(varies, of_x * of_y, 1.0))
    return np.asarray(np.where(varies, np.clip(together / spread, -1.0, 1.0), 0.0))


def _moments(x: Values, y: Values) -> Values:
    x, y = _standardised(x), _standardised(y)
    return np.stack([x, y, x * x, y * y, x * y, np.ones(len(x))])


def _standardised(values: Values) -> Values:
    """About their mean, in units of their deviation: sums of squares then lose no digits."""
    if (values == values[0]).all():
        return np.zeros(len(values))
    # Scaled first, so that squares of very large or very small scores stay numbers.
    apart = values - values.mean()
    apart = apart / np.abs(apart).max()
    return np.asarray(apart / apart.std())
