"""Confidence intervals over items: percentile bootstrap and Wilson.

`Bootstrap` resamples items with replacement and takes percentiles of the statistic over the
resamples (Efron, 1979). All quantities of one item are resampled together, so one resample serves
a ratio of sums, or the difference of two models on the same items (a paired bootstrap). `wilson`
is the interval of a proportion (Wilson, 1927), which stays within 0 and 1.

Both cover the variation of items only: training with another seed varies as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError

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
        self, table: ItemStatistics, statistic: Statistic
    ) -> list[tuple[float, float] | None]:
        """Low and high of each of the statistic's k values; None with fewer than two items."""
        quantities, n = table.shape
        if n < 2:
            return [None] * len(statistic(table))
        generator = np.random.default_rng(self.seed)
        chunk_size = max(1, VALUES_IN_MEMORY // (n * (quantities + 1)))
        values = []
        for done in range(0, self.resamples, chunk_size):
            draws = min(chunk_size, self.resamples - done)
            index = generator.integers(n, size=(draws, n))
            values.append(statistic(np.take(table, index, axis=1)))
        tail = (1 - self.confidence) / 2
        lows, highs = np.quantile(np.concatenate(values, axis=-1), [tail, 1 - tail], axis=-1)
        return [(float(low), float(high)) for low, high in zip(lows, highs, strict=True)]


def wilson(successes: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Low and high of the proportion successes / n."""
    from scipy.stats import binomtest  # a second of import time

    if not 0 <= successes <= n or n < 1:
        raise UserError(f"{successes} successes of {n} items is not a proportion", topic="interval")
    interval = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
    return float(interval.low), float(interval.high)
