"""A score over a variant's seeds: the mean, with an interval over seeds and items."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import stdtrit

from regard.evaluation.statistics.item_groups import count_groups, effective_groups
from regard.evaluation.statistics.seed_tables import ScoreFunction, SeedTables

LEVEL = 0.95


@dataclass(frozen=True)
class SeedSpread:
    """The mean over seeds, with an interval for the variance between seeds and between items."""

    value: float
    low: float | None
    high: float | None
    "None with one seed, whose variance is unknown, and for the reason in `no_interval`."
    per_seed: tuple[float, ...]
    n: int
    items: str
    groups: int | None = None
    "Number of groups of items; None where every item stands alone."
    no_interval: str = ""
    "What the items lack for an interval; empty if they lack nothing."


def seed_spread(
    tables: SeedTables,
    score_function: ScoreFunction,
    *,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    no_interval: str = "",
    level: float = LEVEL,
) -> SeedSpread:
    """Mean score and t-interval; `bounds` of the score clip the symmetric interval.

    There is none where the items lack something: `no_interval`."""
    per_seed, leave_one_out = tables.leave_one_out(score_function)
    seeds, units = leave_one_out.shape
    value = float(per_seed.mean())
    low = high = None
    if seeds > 1 and units > 1 and not no_interval:
        se_seeds = float(per_seed.std(ddof=1)) / math.sqrt(seeds)
        # Jackknife over items, or over groups of items.
        se_items = math.sqrt((units - 1) * float(leave_one_out.mean(axis=0).var()))
        degrees_of_freedom = max(1, min(seeds, effective_groups(tables.groups) or units) - 1)
        half_width = float(stdtrit(degrees_of_freedom, (1 + level) / 2)) * math.hypot(
            se_seeds, se_items
        )
        low, high = max(value - half_width, bounds[0]), min(value + half_width, bounds[1])
    return SeedSpread(
        value,
        low,
        high,
        tuple(map(float, per_seed)),
        tables.n,
        tables.items,
        count_groups(tables.groups),
        no_interval,
    )
