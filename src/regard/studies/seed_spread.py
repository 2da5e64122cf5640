"""A variant's figure over its seeds: the mean, and how far seeds and items let it move."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import stdtrit

from regard.evaluation.statistics.seed_tables import ScoreFunction, SeedTables

LEVEL = 0.95


@dataclass(frozen=True)
class SeedSpread:
    """The mean over seeds, with an interval that seeds and items make."""

    value: float
    low: float | None
    high: float | None
    "None with one seed: it cannot tell how far another would move the figure."
    per_seed: tuple[float, ...]
    n: int
    items: str


def spread_of(
    measured: SeedTables,
    statistic: ScoreFunction,
    *,
    ends: tuple[float, float] = (-math.inf, math.inf),
) -> SeedSpread:
    """`ends` are what the figure cannot leave: near them a symmetric interval would."""
    whole, without = measured.leave_one_out(statistic)
    seeds, n = len(whole), measured.statistics.shape[-1]
    value = float(whole.mean())
    low = high = None
    if seeds > 1 and n > 1:
        se_seeds = float(whole.std(ddof=1)) / math.sqrt(seeds)
        se_items = math.sqrt((n - 1) * float(without.mean(axis=0).var()))
        half = float(stdtrit(seeds - 1, (1 + LEVEL) / 2)) * math.hypot(se_seeds, se_items)
        low, high = max(value - half, ends[0]), min(value + half, ends[1])
    return SeedSpread(value, low, high, tuple(map(float, whole)), n, measured.items)
