"""Strong skew of the differences between seeds: one seed, or a few, far from the others.

    g = Σ (d − mean)³ / S  /  (Σ (d − mean)² / S)^(3/2)      strong: |g| ≥ 1, and no more than 2 %
                                                            of normal samples of S have as much

Three seeds cannot show it, for their |g| is at most 0.71.

A t interval assumes differences that are about normal. Where a method now and then fails, they are
not, and means of few seeds are wrong more often than 5 % says. Skew that a sample shows is taken
into account; a tail that no seed has met yet is not in the sample, and no test of a mean is exact
for all distributions (Bahadur and Savage, 1956): see docs/studies/calibration.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

NORMAL_SAMPLES = 2.0
"Percent of normal samples that are called strongly skewed, at most."
MIN_SKEWNESS = 1.0
"With many seeds, skew that is certain may be too small to matter."
SIMULATED_SAMPLES = 50_000
MAX_SIMULATED_SEEDS = 50
"With more seeds, 2 % of normal samples have a skewness of 0.8 or less."


def skewness(differences: Sequence[float]) -> float:
    """The third standardised moment; 0 where the differences are equal up to rounding."""
    values = np.asarray(differences, dtype=np.float64)
    largest = np.abs(values).max()
    if largest == 0 or np.ptp(values / largest) <= 1e-9:
        return 0.0
    # Divided by the largest, so that no power overflows.
    return float(_skewness(values / largest))


def is_strongly_skewed(differences: Sequence[float]) -> bool:
    """Whether differences of seeds are skewed too much for a t interval to be trusted."""
    seeds = len(differences)
    return seeds > 2 and abs(skewness(differences)) >= max(MIN_SKEWNESS, _normal_limit(seeds))


@cache
def _normal_limit(seeds: int) -> float:
    """The skewness that 2 % of normal samples have."""
    if seeds > MAX_SIMULATED_SEEDS:
        return 0.0
    samples = np.random.default_rng(0).standard_normal((SIMULATED_SAMPLES, seeds))
    return float(np.quantile(np.abs(_skewness(samples)), 1 - NORMAL_SAMPLES / 100))


def _skewness(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(…, s) to (…)."""
    deviations = values - values.mean(axis=-1, keepdims=True)
    return np.asarray((deviations**3).mean(axis=-1) / (deviations**2).mean(axis=-1) ** 1.5)
