"""Confidence intervals over items: percentile bootstrap and Wilson.

`Bootstrap` resamples items with replacement and takes percentiles of the statistic over the
resamples (Efron, 1979). All quantities of one item are resampled together, so one resample serves
a ratio of sums, or the difference of two models on the same items (a paired bootstrap). `wilson`
is the interval of a proportion (Wilson, 1927), which stays within 0 and 1.

Items of a group are resampled together, and percentiles of few groups are too narrow: the tail α is
that of Student's t, with G as `item_groups.py` counts groups of unequal size,

    α' = Φ(−√(G/(G−1)) · t(1−α, G−1))                                         Hesterberg, 2015

`wilson_by_group` takes the effective number of items, n* = p(1−p) / jackknife variance over groups
(Korn and Graubard, 1998), and a quantile of t. The degrees of freedom are those of the groups that
hold the rarer outcome, for they alone show how much groups vary: with those of all groups, 97 %
right in groups that are nearly right or wrong as a whole is covered in 75 % of samples. The
interval never leaves that of G independent items, as which groups count at worst. Coverage as it
is: docs/studies/calibration.md.

Both cover the variation of items only: training with another seed varies as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError
from regard.evaluation.statistics.item_groups import MIN_GROUPS, GroupNumbers, effective_count

ItemStatistics: TypeAlias = NDArray[np.float64]
"(c, …, n): c quantities of n items, items on the last axis."

Statistic: TypeAlias = Callable[[ItemStatistics], NDArray[np.float64]]
"Item statistics (c, …, n) to k values (k, …), reducing the last axis."

VALUES_IN_MEMORY = 4_000_000
"Resampled values held at once (32 MB); 100,000 items × 2,000 resamples would not fit."


@dataclass(frozen=True)
class Bootstrap:
    """The percentile bootstrap and everything its result depends on."""

    resamples: int = 2000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise UserError(
                f"confidence {self.confidence} is not between 0 and 1",
                topic="interval",
                hint="Give 0.95 for a 95 % interval.",
            )
        tail = (1 - self.confidence) / 2
        if self.resamples * tail < 1:
            raise UserError(
                f"{self.resamples} resamples leave none outside the bounds of a "
                f"{self.confidence:.4g} interval",
                topic="interval",
                hint=f"Give at least {int(np.ceil(1 / tail)):,} resamples.",
            )

    def __str__(self) -> str:
        """As in a signature: `bootstrap-percentile-95%-2000-seed0`."""
        return f"bootstrap-percentile-{100 * self.confidence:.4g}%-{self.resamples}-seed{self.seed}"

    def intervals(
        self,
        table: ItemStatistics,
        statistic: Statistic,
        *,
        effective_groups: float | None = None,
    ) -> list[tuple[float, float] | None]:
        """Low and high of each of the statistic's k values; None with fewer than two items.

        Where the columns of the table are groups, `effective_groups` is the number of equal groups
        that they are worth; there are none of fewer than `MIN_GROUPS`."""
        quantities, n = table.shape
        if n < (2 if effective_groups is None else MIN_GROUPS):
            return [None] * len(statistic(table))
        generator = np.random.default_rng(self.seed)
        chunk_size = max(1, VALUES_IN_MEMORY // (n * (quantities + 1)))
        values = []
        for done in range(0, self.resamples, chunk_size):
            draws = min(chunk_size, self.resamples - done)
            index = generator.integers(n, size=(draws, n))
            values.append(statistic(np.take(table, index, axis=1)))
        tail = (1 - self.confidence) / 2
        if effective_groups is not None:
            widening = np.sqrt(effective_groups / max(effective_groups - 1, 0.5))
            quantile = t_quantile(effective_groups - 1, confidence=self.confidence)
            tail = NormalDist().cdf(-float(widening) * quantile)
        lows, highs = np.quantile(np.concatenate(values, axis=-1), [tail, 1 - tail], axis=-1)
        return [(float(low), float(high)) for low, high in zip(lows, highs, strict=True)]


def at_least_t(
    interval: tuple[float, float] | None,
    value: float,
    left_out: NDArray[np.float64],
    *,
    effective_groups: float,
    confidence: float,
) -> tuple[float, float] | None:
    """The interval of a difference, not narrower than that of t over groups left out in turn (g).

    Where few groups differ, resamples without them make percentiles too narrow: in groups that are
    right or wrong almost as a whole, 95 % of them right, 9 % of equal methods would differ."""
    if interval is None or not np.isfinite(left_out).all():
        return interval
    se = np.sqrt((len(left_out) - 1) * left_out.var())
    half = t_quantile(effective_groups - 1, confidence=confidence) * se
    return min(interval[0], value - half), max(interval[1], value + half)


def wilson_by_group(
    is_success: NDArray[np.bool_], groups: GroupNumbers | None, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Low and high of the proportion of successes, of items that come in groups."""
    n, successes = len(is_success), int(is_success.sum())
    if groups is None:
        return wilson(successes, n, confidence=confidence)
    p = successes / n
    in_group = np.bincount(groups, weights=is_success).astype(np.float64)
    sizes = np.bincount(groups).astype(np.float64)
    equal_groups = effective_count(sizes)
    at_worst = _score_interval(p, equal_groups, t_quantile(equal_groups - 1, confidence=confidence))
    if successes in (0, n) or len(sizes) < 2:
        return at_worst
    left_out = (successes - in_group) / (n - sizes)
    variance = (len(sizes) - 1) * float(left_out.var())
    effective_n = min(n, p * (1 - p) / variance) if variance > 0 else n
    rarer = in_group if 2 * successes <= n else sizes - in_group
    quantile = t_quantile(effective_count(rarer) - 1, confidence=confidence)
    low, high = _score_interval(p, effective_n, quantile)
    return max(low, at_worst[0]), min(high, at_worst[1])


def t_quantile(degrees_of_freedom: float, *, confidence: float = 0.95) -> float:
    """How many standard errors the interval reaches to each side; at least 1 degree of freedom."""
    from scipy.special import stdtrit  # `import regard.api` loads no scipy

    return float(stdtrit(max(1.0, degrees_of_freedom), (1 + confidence) / 2))


def _score_interval(p: float, n: float, quantile: float) -> tuple[float, float]:
    """Wilson's interval of n items that need not be a whole number."""
    squared = quantile**2 / n
    middle = (p + squared / 2) / (1 + squared)
    half = quantile / (1 + squared) * np.sqrt(p * (1 - p) / n + squared / (4 * n))
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def wilson(successes: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Low and high of the proportion successes / n."""
    from scipy.stats import binomtest  # a second of import time

    if not 0 <= successes <= n or n < 1:
        raise UserError(f"{successes} successes of {n} items is not a proportion", topic="interval")
    interval = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
    return float(interval.low), float(interval.high)
