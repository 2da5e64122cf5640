"""A planned sequence of looks at a growing study: the study may stop at any of them, at 5 % in all.

    look k, at S_k seeds, differs where    z(p_k) · (S_k / S_K)^δ ≥ c       z(p) = −Φ⁻¹(p / 2)

    δ = 0   `pocock`: every look has one level, so early looks can decide   Pocock, 1977
    δ = ½   `obrien-fleming`: early looks have little, the last nearly 5 %   O'Brien, Fleming, 1979

p_k is the two-sided p of the t test at that look. For seeds alone t statistics do not depend on
scale, so c follows from the numbers of seeds, by simulation with a fixed seed: it is the quantile
of the largest of the K statistics of equal methods. With many seeds it is the published constant of
that boundary; with few, the boundary holds for p instead of z (Jennison and Turnbull, 2000, 4.4).

The variance over items makes all of it conservative: all looks share the items, so there is less
chance that one of them misleads, and S−1 degrees of freedom are too few for it. With standard
deviations of items to seeds of 0, 0.1, 0.3 and 1, four looks find a difference of equal methods in
5, 3, 1 and 2 % (docs/studies/calibration.md). Groups of items enter the standard error and the
degrees of freedom of each look's test, min(S, G)−1, and nothing else.

The interval at a look has the level of that look, 1 − α_k: all K of them hold the truth together in
95 % of studies, so the one at which a study stopped does in at least as many (repeated confidence
intervals; Jennison and Turnbull, 1989). The value itself is not adjusted: a study that stops early
has met a difference that is larger than the true one on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

Boundary: TypeAlias = Literal["pocock", "obrien-fleming"]

EXPONENTS: dict[Boundary, float] = {"pocock": 0.0, "obrien-fleming": 0.5}
SIMULATED_STUDIES = 200_000
"The standard error of a rate of 5 % is then 0.05 %."
MIN_COUNTED = 100
"Of the simulated studies; a smaller rate is bounded by the sum over looks instead."
MAX_Z = 38.0
"Beyond it a p is 0."
SIMULATED_FUTURES = 4000


@dataclass(frozen=True)
class LookPlan:
    """How many seeds there are at each look, increasing, and the boundary."""

    seeds: tuple[int, ...]
    boundary: Boundary = "pocock"

    def __post_init__(self) -> None:
        increasing = all(fewer < more for fewer, more in pairwise(self.seeds))
        if len(self.seeds) < 2 or self.seeds[0] < 2 or not increasing:
            raise ValueError(f"{self.seeds}: give two looks or more, increasing, from 2 seeds")

    def alphas(self, alpha: float) -> tuple[float, ...]:
        """The p below which each look differs, so that all together do at the rate `alpha`."""
        return _alphas(self, alpha)

    def thresholds(self, alpha: float) -> tuple[float, ...]:
        """The same as values of t, with the degrees of freedom of the seeds."""
        return tuple(
            float(stdtrit(seeds - 1, 1 - one / 2))
            for seeds, one in zip(self.seeds, self.alphas(alpha), strict=True)
        )

    def overall_p(self, p: float, *, look: int) -> float:
        """The smallest rate at which the p of this look differs: a p for the plan as a whole."""
        if p <= 0:
            return 0.0
        statistics, rates = _rates_of_largest(self)
        statistic = -float(ndtri(p / 2)) * self.weights[look]
        return float(np.interp(statistic, statistics, rates))

    @property
    def weights(self) -> tuple[float, ...]:
        """(S_k / S_K)^δ of each look."""
        exponent = EXPONENTS[self.boundary]
        return tuple((seeds / self.seeds[-1]) ** exponent for seeds in self.seeds)


@dataclass(frozen=True)
class PlannedLook:
    """One look of a plan, counted from 0."""

    plan: LookPlan
    index: int

    @property
    def is_last(self) -> bool:
        return self.index == len(self.plan.seeds) - 1

    def alpha(self, alpha: float) -> float:
        """The p below which this look differs, if all looks together may at the rate `alpha`."""
        return self.plan.alphas(alpha)[self.index]


@dataclass(frozen=True, kw_only=True)
class Interim:
    """What a look knows of the looks after it."""

    per_seed: Sequence[float]
    "The difference of each seed so far."
    se_items: float
    "Standard error over items of their mean."
    se_persistent: float
    "The component of it that more seeds do not reduce."
    units: float
    "Independent items, or groups of them."

    def se_items_with(self, seeds: int) -> float:
        residual = max(0.0, self.se_items**2 - self.se_persistent**2)
        return math.sqrt(self.se_persistent**2 + residual * len(self.per_seed) / seeds)


def chance_to_differ(interim: Interim, look: PlannedLook, *, alpha: float) -> float:
    """The predictive probability that a later look of the plan differs (Spiegelhalter, 1986).

    Seeds to come are drawn from a normal distribution whose mean and variance are drawn from their
    posterior given the seeds so far, without prior knowledge. 0 at the last look."""
    plan, values = look.plan, np.asarray(interim.per_seed, dtype=np.float64)
    seeds, generator = len(values), np.random.default_rng(0)
    # In units of the largest, so that no square overflows.
    scale = float(np.abs(values).max()) or 1.0
    values = values / scale
    variance = values.var() * seeds / generator.chisquare(seeds - 1, SIMULATED_FUTURES)
    spread = np.sqrt(variance)
    center = values.mean() + spread / math.sqrt(seeds) * generator.standard_normal(len(spread))
    total, squares = np.full(len(spread), values.sum()), np.full(len(spread), (values**2).sum())
    differs, alphas, present = np.zeros(len(spread), bool), plan.alphas(alpha), seeds
    for index in range(look.index + 1, len(plan.seeds)):
        more = plan.seeds[index] - present
        mean, within = _draw_seeds(generator, more, len(spread))
        sums = center * more + spread * mean
        total = total + sums
        squares = squares + variance * within + sums**2 / more
        present = plan.seeds[index]
        over_seeds = np.maximum(0.0, squares - total**2 / present) / (present - 1) / present
        se = np.sqrt(over_seeds + (interim.se_items_with(present) / scale) ** 2)
        freedom = max(1.0, min(present, interim.units) - 1)
        critical = float(stdtrit(freedom, 1 - alphas[index] / 2))
        differs |= np.abs(total / present) > critical * se
    return float(differs.mean())


@cache
def _alphas(plan: LookPlan, alpha: float) -> tuple[float, ...]:
    statistics, rates = _rates_of_largest(plan)
    critical = float(np.interp(-alpha, -rates, statistics))
    return tuple(2 * float(ndtr(-critical / weight)) for weight in plan.weights)


def _draw_seeds(
    generator: np.random.Generator, seeds: int, studies: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of standard normal differences, and their squared deviations: sufficient, whatever S."""
    sums = math.sqrt(seeds) * generator.standard_normal(studies)
    deviations = generator.chisquare(seeds - 1, studies) if seeds > 1 else np.zeros(studies)
    return sums, deviations


@cache
def _rates_of_largest(plan: LookPlan) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of the largest statistic of all looks, and how often equal methods reach them."""
    generator = np.random.default_rng(0)
    total, squares = np.zeros(SIMULATED_STUDIES), np.zeros(SIMULATED_STUDIES)
    largest, present = np.zeros(SIMULATED_STUDIES), 0
    for seeds, weight in zip(plan.seeds, plan.weights, strict=True):
        sums, deviations = _draw_seeds(generator, seeds - present, SIMULATED_STUDIES)
        total += sums
        squares += deviations + sums**2 / (seeds - present)
        present = seeds
        t = total / np.sqrt(seeds * (squares - total**2 / seeds) / (seeds - 1))
        p = 2 * stdtr(seeds - 1, -np.abs(t))
        largest = np.maximum(largest, -ndtri(p / 2) * weight)
    counted = np.sort(largest)[: 1 - MIN_COUNTED]
    rates = 1 - np.arange(len(counted)) / SIMULATED_STUDIES
    beyond = np.arange(counted[-1], MAX_Z, 0.01)[1:]
    bound = sum(2 * ndtr(-beyond / weight) for weight in plan.weights)
    statistics = np.concatenate([[0.0], counted, beyond])
    return statistics, np.concatenate([[1.0], rates, np.minimum(rates[-1], bound)])
