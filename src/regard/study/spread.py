"""A variant's figure over its seeds: the mean, and how far seeds and items let it move."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from regard.experiment.items import read_items
from regard.metrics.measured import Measured, SumStatistic, Values, perplexity

LEVEL = 0.95

STATISTICS: dict[str, SumStatistic] = {
    "perplexity": perplexity,
    "perplexity_per_byte": lambda sums: np.exp(sums[0] / sums[2]),
    "bits_per_byte": lambda sums: sums[0] / (sums[2] * math.log(2)),
    "loss_per_document": lambda sums: sums[3] / sums[4],
}
"Of the sums of nats, tokens, bytes, loss and one, over the documents."


@dataclass(frozen=True)
class Spread:
    """The mean over seeds, with an interval that seeds and items make."""

    value: float
    low: float | None
    high: float | None
    "None with one seed: it cannot tell how far another would move the figure."
    per_seed: tuple[float, ...]
    n: int
    items: str


def columns_of(folder: str, part: str) -> Values:
    """(c, n): what `STATISTICS` are sums of."""
    table = read_items(folder, part)
    return np.vstack([table.columns, np.ones(len(table))])


def spread_of(measured: Measured, statistic: SumStatistic) -> Spread:
    whole, without = measured.values(statistic)
    seeds, n = len(whole), measured.columns.shape[-1]
    value = float(whole.mean())
    low = high = None
    if seeds > 1 and n > 1:
        se_seeds = float(whole.std(ddof=1)) / math.sqrt(seeds)
        se_items = math.sqrt((n - 1) * float(without.mean(axis=0).var()))
        half = float(stdtrit(seeds - 1, (1 + LEVEL) / 2)) * math.hypot(se_seeds, se_items)
        low, high = value - half, value + half
    return Spread(value, low, high, tuple(map(float, whole)), n, measured.items)
