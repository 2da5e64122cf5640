"""A smoothed interval, for scores that a few items of a rare class decide.

    weights: Γ(1) of each item, Γ(w) of each pseudo-item        score of the weighted sums

A bootstrap only ever shows what the sample has: a class with one item that is answered correctly is
answered correctly in every resample. The Bayesian bootstrap (Rubin, 1981) with pseudo-items of
small weight, one correct and one wrong of each class, admits that the next one may be wrong. The
interval is the wider of both on either side; docs/studies/calibration.md shows its coverage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.evaluation.statistics.intervals import Bootstrap
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values


@dataclass(frozen=True, eq=False)
class Smoothing:
    """What is added to the items of a sample."""

    pseudo_items: Values
    "(c, k): statistics as of items."
    weight: float
    "The mean weight of each; that of an item is 1."


def widened(
    interval: tuple[float, float],
    table: Values,
    smoothing: Smoothing,
    score_function: ScoreFunction,
    bootstrap: Bootstrap,
) -> tuple[float, float]:
    """The bootstrap interval of a table (c, u) of items or groups, and its smoothed one."""
    generator = np.random.default_rng(bootstrap.seed)
    units, pseudo = table.shape[1], smoothing.pseudo_items.shape[1]
    items = generator.standard_gamma(1.0, size=(units, bootstrap.resamples))
    added = generator.standard_gamma(smoothing.weight, size=(pseudo, bootstrap.resamples))
    scores = score_function(table @ items + smoothing.pseudo_items @ added)
    tail = (1 - bootstrap.confidence) / 2
    low, high = np.quantile(scores, [tail, 1 - tail])
    return min(interval[0], float(low)), max(interval[1], float(high))
