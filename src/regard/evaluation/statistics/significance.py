"""Significance of the difference of two methods over seeds and items.

    d_s      = score(a, seed s) − score(b, seed s)              same seed, same items
    value    = mean of d_s
    se²      = sd(d_s)² / S  +  jackknife variance of value over the items
    interval = value ± t(S−1) · se

A method is a recipe, not a checkpoint: both the seeds and the items are samples, and se covers the
variance of both. S−1 degrees of freedom are exact where the variance over seeds dominates and
conservative where that over items does (the smaller of two degrees of freedom: Mickey and Brown,
1966). With one seed only items vary, and the interval holds for these trained models, not for the
methods.

Items of a group (the questions about one passage) are not independent: where items have groups, the
jackknife leaves out whole groups, and groups replace items in the degrees of freedom, min(S, G)−1,
with G as `item_groups.py` counts groups of unequal size.

Where the differences of the seeds are strongly skewed, t alone decides nothing: it is tested at a
fifth of the level, and with enough seeds for a sign-flip test the weaker of the two is the verdict
(`skew.py`, `sign_flips.py`).

At a planned look (`sequential.py`) everything is the same, at the level of that look.

The variance over items is a jackknife estimate (Tukey, 1958). For smooth functions of sums it
agrees with the bootstrap (docs/studies/calibration.md), is deterministic, and does not depend on
the order of the items.

Shapes: s seeds, u units: groups where items have them, else the items.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import nctdtrinc, stdtr, stdtrit

from regard.core.errors import UserError
from regard.evaluation.statistics.baseline_verdict import too_few_items
from regard.evaluation.statistics.item_groups import count_groups, effective_groups
from regard.evaluation.statistics.seed_tables import (
    ScoreFunction,
    SeedTables,
    Values,
    check_comparable,
)
from regard.evaluation.statistics.sequential import Interim, PlannedLook, chance_to_differ
from regard.evaluation.statistics.sign_flips import sign_flip_p, smallest_p
from regard.evaluation.statistics.skew import is_strongly_skewed

ALPHA = 0.05
"Of all differences tested together: sign flips are used where they can be significant."
SKEWED_FRACTION = 0.2
"Of the level of t, for strongly skewed differences; found by simulation."
POWER = 0.8
"Power of the minimum detectable difference."


@dataclass(frozen=True, kw_only=True)
class MethodDifference:
    """Method a minus method b, with its standard errors."""

    a: str
    b: str
    value: float
    per_seed: tuple[float, ...]
    "a − b for each seed, in the order of the seeds."
    se_seeds: float | None
    "Standard error over seeds; None with one seed."
    se_items: float
    "Standard error over units of the mean over seeds; infinite with one unit."
    se_persistent: float
    "Component of se_items that more seeds do not reduce: items that favour a method at any seed."
    n: int
    items: str = "documents"
    groups: int | None = None
    "Number of groups of items; None where every item stands alone."
    effective_groups: float | None = None
    "The number of equal groups that they are worth."
    level: float = 0.95
    "Confidence level of the interval; Holm's correction raises it."
    comparisons: int = 1
    "Number of differences tested together, this one included."
    p_adjusted: float | None = None
    "Holm-adjusted p; None before `holm`."
    look: PlannedLook | None = None
    "The planned look at which the seeds were judged; None without a plan."

    @property
    def seeds(self) -> int:
        return len(self.per_seed)

    @property
    def scope(self) -> str:
        return "the methods" if self.seeds > 1 else "these trained models, not the methods"

    @property
    def se(self) -> float:
        return math.hypot(self.se_seeds or 0.0, self.se_items)

    @property
    def units(self) -> float:
        """Independent units of the sample: groups where items have them, else the items."""
        return self.n if self.effective_groups is None else self.effective_groups

    @property
    def degrees_of_freedom(self) -> float:
        """S−1, or units − 1 where there are fewer units than seeds, or one seed only."""
        return _degrees_of_freedom(self.seeds if self.seeds > 1 else self.units, self.units)

    @property
    def low(self) -> float:
        return self.value - self._half_width

    @property
    def high(self) -> float:
        return self.value + self._half_width

    @property
    def _half_width(self) -> float:
        tail = (1 - self.level) * (SKEWED_FRACTION if self.is_skewed else 1.0)
        half = float(stdtrit(self.degrees_of_freedom, 1 - tail / 2)) * self.se
        is_refused = self.p_sign_flips is not None and self.p_sign_flips >= 1 - self.level
        return max(half, abs(self.value)) if is_refused else half

    @property
    def p(self) -> float:
        """Two-sided p of this difference alone; the weaker of two tests of skewed differences."""
        if self.se == 0:
            return float(self.value == 0)
        p_t = 2 * float(stdtr(self.degrees_of_freedom, -abs(self.value) / self.se))
        if not self.is_skewed:
            return p_t
        return max(min(1.0, p_t / SKEWED_FRACTION), self.p_sign_flips or 0.0)

    @cached_property
    def p_sign_flips(self) -> float | None:
        """Two-sided p of a sign-flip test; None where it is not needed, or could not decide."""
        can_decide = smallest_p(self.seeds) < self._strictest_alpha
        return sign_flip_p(self.per_seed) if self.is_skewed and can_decide else None

    @property
    def _strictest_alpha(self) -> float:
        """Of all differences tested together and of the look, if it is one of a plan."""
        alpha = ALPHA / self.comparisons
        return alpha if self.look is None else self.look.alpha(alpha)

    @cached_property
    def is_skewed(self) -> bool:
        """Whether the differences of the seeds are strongly skewed."""
        return is_strongly_skewed(self.per_seed)

    @property
    def seeds_for_sign_flips(self) -> int:
        """The fewest seeds with which a sign-flip test can be significant."""
        return next(s for s in range(1, 64) if smallest_p(s) < self._strictest_alpha)

    @property
    def distinguishable(self) -> bool:
        """Whether the interval excludes 0 and there are enough items for a verdict."""
        is_enough = not too_few_items(self.n, self.items, groups=self.groups)
        return is_enough and (self.low > 0 or self.high < 0)

    @property
    def limiting_factor(self) -> str:
        """`seeds` or `items`: the larger standard error."""
        return "seeds" if self.se_seeds is None or self.se_seeds >= self.se_items else "items"

    @property
    def min_detectable(self) -> float:
        """The smallest true difference found with a power of 80 % by a study of this size."""
        return detectable_ratio(self.degrees_of_freedom, self.level) * self.se

    def detectable_by_plan(self) -> float | None:
        """The smallest true difference found with a power of 80 % at the last look of the plan,
        as if it were the only one: the plan finds it at least as often. None without a plan."""
        if self.look is None or self.se_seeds is None:
            return None
        plan = self.look.plan
        seeds = plan.seeds[-1]
        over_seeds = self.se_seeds * math.sqrt(self.seeds / seeds)
        se = math.hypot(over_seeds, self._interim.se_items_with(seeds))
        level = 1 - plan.alphas(ALPHA / self.comparisons)[-1]
        return detectable_ratio(_degrees_of_freedom(seeds, self.units), level) * se

    def chance_by_plan(self) -> float | None:
        """The chance that a later look of the plan differs; None without a plan or a later look."""
        if self.look is None or self.look.is_last or not math.isfinite(self.se):
            return None
        return chance_to_differ(self._interim, self.look, alpha=ALPHA / self.comparisons)

    @property
    def _interim(self) -> Interim:
        return Interim(
            per_seed=self.per_seed,
            se_items=self.se_items,
            se_persistent=self.se_persistent,
            units=self.units,
        )

    def seeds_needed(self, difference: float) -> int | None:
        """About how many seeds detect this difference with a power of 80 %, on the same items.

        None where the variance over items rules it out, and with one seed.
        """
        if self.se_seeds is None or difference == 0:
            return None
        persistent = self.se_persistent**2
        per_seed = self.seeds * (self.se**2 - persistent)

        def is_detected(seeds: int) -> bool:
            se = math.sqrt(persistent + per_seed / seeds)
            ratio = detectable_ratio(_degrees_of_freedom(seeds, self.units), self.level)
            return ratio * se <= abs(difference)

        lowest_ratio = detectable_ratio(_degrees_of_freedom(self.units, self.units), self.level)
        if lowest_ratio * self.se_persistent >= abs(difference):
            return None
        enough = 2
        while not is_detected(enough):
            enough *= 2
            if enough > MAX_SEEDS:
                return None
        too_few = enough // 2
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            too_few, enough = (too_few, middle) if is_detected(middle) else (middle, enough)
        return enough

    def units_needed(self, difference: float) -> int | None:
        """About how many items (or groups) detect this difference with a power of 80 %, with the
        same seeds.

        None where the variance over seeds rules it out, or where the number overflows.
        """
        se = difference / detectable_ratio(self.degrees_of_freedom, self.level)
        variance = se**2 - (self.se_seeds or 0.0) ** 2
        present = self.n if self.groups is None else self.groups
        needed = present * self.se_items**2 / variance if variance > 0 else math.inf
        return max(2, math.ceil(needed)) if math.isfinite(needed) else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; None for what is not finite."""
        properties = (
            *("seeds", "scope", "se", "low", "high", "p", "p_sign_flips", "is_skewed"),
            *("distinguishable", "limiting_factor", "min_detectable"),
        )
        plain = asdict(self) | {name: getattr(self, name) for name in properties}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in plain.items()
        }


MAX_SEEDS = 2**20
"Limit of the search in `seeds_needed`."


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
    (full_a, left_out_a), (full_b, left_out_b) = (
        method.leave_one_out(score_function) for method in (a, b)
    )
    per_seed, left_out = full_a - full_b, left_out_a - left_out_b
    seeds, units = left_out.shape
    # Squares overflow where a training run nearly diverged: se is then infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        of_mean = float(_jackknife_variance(left_out.mean(axis=0)))
        of_one_seed = float(_jackknife_variance(left_out).mean())
        se_seeds = float(per_seed.std(ddof=1) / math.sqrt(seeds)) if seeds > 1 else None
    # Item variance is persistent + v for one seed, and persistent + v / S for the mean over seeds.
    has_both = seeds > 1 and units > 1
    persistent = (seeds * of_mean - of_one_seed) / (seeds - 1) if has_both else of_mean
    return MethodDifference(
        a=a.variant,
        b=b.variant,
        value=float(per_seed.mean()),
        per_seed=tuple(per_seed.tolist()),
        se_seeds=se_seeds,
        se_items=math.sqrt(of_mean),
        se_persistent=math.sqrt(max(0.0, persistent)),
        n=a.n,
        items=a.items,
        groups=count_groups(a.groups),
        effective_groups=effective_groups(a.groups),
        level=level,
    )


def _jackknife_variance(left_out: Values) -> Values:
    """(…, u) leave-one-out values to the variance of the estimate (…)."""
    n = left_out.shape[-1]
    if n < 2:
        return np.full(left_out.shape[:-1], math.inf)
    return np.asarray((n - 1) * left_out.var(axis=-1))


def _degrees_of_freedom(seeds: float, units: float) -> float:
    return max(1, min(seeds, units) - 1)


def detectable_ratio(degrees_of_freedom: float, level: float) -> float:
    """Minimum detectable difference with POWER, in standard errors."""
    return float(
        nctdtrinc(degrees_of_freedom, 1 - POWER, stdtrit(degrees_of_freedom, (1 + level) / 2))
    )
