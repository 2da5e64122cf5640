"""Significance: whether two methods differ, or only the models that happened to be trained.

    d_s      = statistic(a, seed s) − statistic(b, seed s)              same seed, same items
    value    = mean of d_s
    se²      = sd(d_s)² / S  +  jackknife variance of value over the items
    interval = value ± t(S−1) · se

A method is a recipe, not a checkpoint: another seed trains another model, and other items bring
other luck. Both are in se. S−1 degrees of freedom are right where seeds vary most and cautious
where items do: with the smaller of two degrees of freedom a t interval never promises too much
(Mickey and Brown, 1966). With one seed only items can vary, and the interval speaks of these
trained models, not of the methods.

Items vary by the jackknife (Tukey, 1958): leave one out, n times. For smooth statistics of sums it
agrees with the bootstrap (docs/studies/calibration.md), draws nothing at random, and does not
depend on the order of the items.

Shapes: s seeds, n items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import nctdtrinc, stdtr, stdtrit

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import MIN_ITEMS
from regard.evaluation.statistics.seed_tables import (
    ScoreFunction,
    SeedTables,
    Values,
    check_comparable,
)

POWER = 0.8
"How often a difference has to be found before it counts as one that this size can show."


@dataclass(frozen=True, kw_only=True)
class MethodDifference:
    """Method a minus method b, with what is needed to judge it at any level."""

    a: str
    b: str
    value: float
    per_seed: tuple[float, ...]
    "a − b for each seed, in the order of the seeds."
    se_seeds: float | None
    "Standard error from seed to seed; None with one seed, which says nothing of others."
    se_items: float
    "Standard error over the items of the mean over seeds; infinite with one item."
    se_lasting: float
    "The part of se_items that more seeds would not lower: items that suit one method for good."
    n: int
    items: str = "documents"
    level: float = 0.95
    "Of the interval; Holm's correction raises it."
    compared: int = 1
    "Differences that were judged together with this one, itself included."
    p_adjusted: float | None = None
    "By Holm; None before `holm`."

    @property
    def seeds(self) -> int:
        return len(self.per_seed)

    @property
    def speaks_of(self) -> str:
        return "the methods" if self.seeds > 1 else "these trained models, not the methods"

    @property
    def se(self) -> float:
        return math.hypot(self.se_seeds or 0.0, self.se_items)

    @property
    def freedom(self) -> int:
        """Degrees of freedom: S−1, or those of the items where they are fewer or all there is."""
        return _freedom(self.seeds if self.seeds > 1 else self.n, self.n)

    @property
    def low(self) -> float:
        return self.value - self._half_width

    @property
    def high(self) -> float:
        return self.value + self._half_width

    @property
    def _half_width(self) -> float:
        return float(stdtrit(self.freedom, (1 + self.level) / 2)) * self.se

    @property
    def p(self) -> float:
        """Two-sided, of this difference alone."""
        if self.se == 0:
            return float(self.value == 0)
        return 2 * float(stdtr(self.freedom, -abs(self.value) / self.se))

    @property
    def distinguishable(self) -> bool:
        """The interval leaves out 0, and rests on enough items for one."""
        return self.n >= MIN_ITEMS and (self.low > 0 or self.high < 0)

    @property
    def limits(self) -> str:
        """`seeds` or `items`: more of which would narrow the interval most."""
        return "seeds" if self.se_seeds is None or self.se_seeds >= self.se_items else "items"

    @property
    def detectable(self) -> float:
        """The smallest true difference that a study like this finds four times in five."""
        return _reach(self.freedom, self.level) * self.se

    def seeds_needed(self, difference: float) -> int | None:
        """About how many seeds find this difference four times in five, on the same items.

        None where the items alone forbid it, and where one seed tells nothing of others.
        """
        if self.se_seeds is None or difference == 0:
            return None
        lasting = self.se_lasting**2
        passing = self.seeds * (self.se**2 - lasting)

        def shown(seeds: int) -> bool:
            se = math.sqrt(lasting + passing / seeds)
            return _reach(_freedom(seeds, self.n), self.level) * se <= abs(difference)

        if _reach(_freedom(self.n, self.n), self.level) * self.se_lasting >= abs(difference):
            return None
        enough = 2
        while not shown(enough):
            enough *= 2
            if enough > MAX_SEEDS:
                return None
        too_few = enough // 2
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            too_few, enough = (too_few, middle) if shown(middle) else (middle, enough)
        return enough

    def items_needed(self, difference: float) -> int | None:
        """About how many items find it so, with as many seeds; None where the seeds forbid it, or
        where it would take more than a number can tell."""
        room = (difference / _reach(self.freedom, self.level)) ** 2 - (self.se_seeds or 0.0) ** 2
        needed = self.n * self.se_items**2 / room if room > 0 else math.inf
        return max(2, math.ceil(needed)) if math.isfinite(needed) else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is infinite is None there."""
        told = ("seeds", "speaks_of", "se", "low", "high", "p", "distinguishable", "limits")
        plain = asdict(self) | {name: getattr(self, name) for name in (*told, "detectable")}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in plain.items()
        }


MAX_SEEDS = 2**20
"Nobody trains as many; items that all but forbid a difference would ask for more."


def method_difference(
    a: SeedTables, b: SeedTables, score_function: ScoreFunction, *, level: float = 0.95
) -> MethodDifference:
    """Method a minus method b, paired by seed and by item."""
    check_comparable(a, b)
    if not 0 < level < 1:
        raise UserError(
            f"level {level} is not between 0 and 1",
            topic="comparison",
            hint="Give 0.95 for a 95 % interval.",
        )
    (whole_a, without_a), (whole_b, without_b) = (
        method.leave_one_out(score_function) for method in (a, b)
    )
    per_seed, without = whole_a - whole_b, without_a - without_b
    seeds, n = len(per_seed), a.statistics.shape[-1]
    # A training that all but diverged makes squares overflow: se is infinite, nothing is found.
    with np.errstate(over="ignore", invalid="ignore"):
        together = float(_jackknife_variance(without.mean(axis=0)))
        alone = float(_jackknife_variance(without).mean())
        se_seeds = float(per_seed.std(ddof=1) / math.sqrt(seeds)) if seeds > 1 else None
    # Items of one seed vary by lasting + passing, those of the mean by lasting + passing / S.
    lasting = (seeds * together - alone) / (seeds - 1) if seeds > 1 and n > 1 else together
    return MethodDifference(
        a=a.variant,
        b=b.variant,
        value=float(per_seed.mean()),
        per_seed=tuple(per_seed.tolist()),
        se_seeds=se_seeds,
        se_items=math.sqrt(together),
        se_lasting=math.sqrt(max(0.0, lasting)),
        n=n,
        items=a.items,
        level=level,
    )


def holm(differences: Sequence[MethodDifference]) -> list[MethodDifference]:
    """Several differences judged together, so that all verdicts hold at once (Holm, 1979).

    Each interval gets the level at which its own difference was tested: the smallest p at
    1 − α/m, the next at 1 − α/(m−1), and all from the first that fails on at that one's level.
    So an interval leaves out 0 exactly where Holm finds a difference. That all intervals hold
    their truth at once is promised only where none is found (then all are at 1 − α/m).
    """
    if not differences:
        return []
    if len({difference.level for difference in differences}) > 1:
        raise ValueError("differences judged together need one level")
    if any(difference.compared > 1 for difference in differences):
        raise ValueError("these differences were corrected before")
    many, alpha = len(differences), 1 - differences[0].level
    p = np.array([difference.p for difference in differences])
    order = np.argsort(p)
    # Equal p are tested at one level, so that the order of the variants decides nothing.
    smaller = np.searchsorted(p[order], p, side="left")
    corrected = np.minimum(1.0, (many - smaller) * p)
    adjusted = np.empty(many)
    adjusted[order] = np.maximum.accumulate(corrected[order])
    fails = (many - smaller) * p >= alpha
    steps = np.minimum(smaller, smaller[fails].min()) if fails.any() else smaller
    return [
        replace(
            difference,
            level=1 - alpha / (many - int(step)),
            compared=many,
            p_adjusted=float(least),
        )
        for difference, step, least in zip(differences, steps, adjusted, strict=True)
    ]


def _jackknife_variance(without: Values) -> Values:
    """(…, n) values with one item left out each, to the variance of the whole (…)."""
    n = without.shape[-1]
    if n < 2:
        return np.full(without.shape[:-1], math.inf)
    return np.asarray((n - 1) * without.var(axis=-1))


def _freedom(seeds: int, n: int) -> int:
    return max(1, min(seeds, n) - 1)


def _reach(freedom: int, level: float) -> float:
    """How many standard errors a difference must measure to be found with POWER."""
    return float(nctdtrinc(freedom, 1 - POWER, stdtrit(freedom, (1 + level) / 2)))
