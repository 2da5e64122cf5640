"""Intervals: how far a figure would move if other items of the same sort had been measured.

`Bootstrap` draws the items anew, with replacement, and takes percentiles of the statistic over
the draws (Efron, 1979). Columns that belong to one item are drawn together, so the same draw
serves a ratio of sums, or the difference of two models on the same items (a paired bootstrap).
`wilson` is the interval for a share of successes (Wilson, 1927), which behaves at 0 and at 1.

Both speak about items only: that another seed would train another model is not in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError

ItemStatistics: TypeAlias = NDArray[np.float64]
"(columns, …, items): one column a quantity, the last axis runs over the items."

Statistic: TypeAlias = Callable[[ItemStatistics], NDArray[np.float64]]
"Columns (c, …, n) to k values (k, …), reducing the last axis."

VALUES_IN_MEMORY = 4_000_000
"Drawn values held at once (32 MB): 100,000 items × 2,000 draws never stand in memory together."


@dataclass(frozen=True)
class Bootstrap:
    """The percentile bootstrap, with all that decides its outcome."""

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
                f"{self.resamples} resamples leave no draw beyond the ends of a "
                f"{self.confidence:.4g} interval",
                topic="interval",
                hint=f"Give at least {int(np.ceil(1 / tail)):,} resamples.",
            )

    def __str__(self) -> str:
        """As written in a signature: `bootstrap-percentile-95%-2000-seed0`."""
        return f"bootstrap-percentile-{100 * self.confidence:.4g}%-{self.resamples}-seed{self.seed}"

    def intervals(
        self, statistics: ItemStatistics, statistic: Statistic
    ) -> list[tuple[float, float] | None]:
        """Low and high of each of the statistic's k values; None where one item cannot vary."""
        quantities, items = statistics.shape
        if items < 2:
            return [None] * len(statistic(statistics))
        generator = np.random.default_rng(self.seed)
        at_once = max(1, VALUES_IN_MEMORY // (items * (quantities + 1)))
        drawn = []
        for done in range(0, self.resamples, at_once):
            draws = min(at_once, self.resamples - done)
            index = generator.integers(items, size=(draws, items))
            drawn.append(statistic(np.take(statistics, index, axis=1)))
        tail = (1 - self.confidence) / 2
        lows, highs = np.quantile(np.concatenate(drawn, axis=-1), [tail, 1 - tail], axis=-1)
        return [(float(low), float(high)) for low, high in zip(lows, highs, strict=True)]


def wilson(successes: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Low and high of the share successes / n."""
    from scipy.stats import binomtest  # a second of import time

    if not 0 <= successes <= n or n < 1:
        raise UserError(f"{successes} successes of {n} items is no share", topic="interval")
    ends = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
    return float(ends.low), float(ends.high)
