"""How often equal methods are found to differ where the items come in groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from benchmarks.calibration.simulation import detection_rate
from numpy.typing import NDArray
from scipy.special import ndtri

from regard.evaluation.statistics.seed_tables import SeedTables, ratio

SIZES = (1, 5, 20, 100)
CORRELATIONS = (0.0, 0.2, 0.5, 0.8, 0.9)
SEEDS = (1, 3, 5, 10)
GROUPS = 20
KINDS = {
    "graded, equal": {},
    "right or wrong, equal": {"is_right_or_wrong": True},
    "right or wrong, unequal": {"is_right_or_wrong": True, "is_unequal": True},
}

SECTION = """## Type I error: items in groups

Equal methods on items that are not independent, such as the questions about one passage:
{studies:,} studies per number with one seed and {fewer:,} with more, at the 5 % level. The score is
the mean over items; the difference of two methods on an item has the given correlation with that on
another item of the group. No number of **regard** may exceed 6 %; sampling error of a rate of 5 %
with one seed is ± {noise:.1f} (95 %). Each study has {groups} groups. *Equal* groups have that many
items; *unequal* ones a log-normal number with that mean (σ = 1: the largest of {groups} holds a
quarter of all items). Where scores are *right or wrong*, seven answers in ten are right. With three
or five seeds, S−1 degrees of freedom are conservative where items vary most, as above.

*Items as independent* is the same test without the groups, at a correlation of 0.8.

{table}
"""


def section(studies: int) -> str:
    # With one seed the true rate is close to 5 %, and chance would lift some number over 6 %.
    of_one_seed, fewer = 2 * studies, max(1, studies // 4)
    noise = 196 * np.sqrt(0.05 * 0.95 / of_one_seed)
    lines = "\n".join(table(of_one_seed, fewer))
    return SECTION.format(studies=of_one_seed, fewer=fewer, noise=noise, groups=GROUPS, table=lines)


@dataclass(frozen=True, kw_only=True)
class GroupedSimulation:
    """Studies of two equal methods on items that come in groups."""

    seeds: int
    size: int
    "Mean number of items of a group."
    correlation: float
    groups: int = GROUPS
    is_unequal: bool = False
    is_right_or_wrong: bool = False
    accuracy: float = 0.7
    method_seed_std: float = 0.05
    "Not drawn for one seed, whose verdict is about these trained models."

    def draw_groups(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """The group of each item."""
        sizes = np.full(self.groups, self.size)
        if self.is_unequal:
            weights = generator.lognormal(0.0, 1.0, self.groups)
            sizes = np.maximum(1, np.round(weights * self.size / weights.mean())).astype(np.int64)
        return np.repeat(np.arange(self.groups), sizes)

    def draw_scores(
        self, generator: np.random.Generator, groups: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """(s, n) scores of one method."""
        shape = (self.seeds, len(groups))
        by_group = generator.standard_normal(self.groups)[groups]
        by_item = generator.standard_normal(len(groups))
        by_item = np.sqrt(0.9) * by_item + np.sqrt(0.1) * generator.standard_normal(shape)
        by_seed = self.method_seed_std * generator.standard_normal((self.seeds, 1))
        by_seed = by_seed if self.seeds > 1 else np.zeros((1, 1))
        scores = np.sqrt(self.correlation) * by_group + np.sqrt(1 - self.correlation) * by_item
        if self.is_right_or_wrong:
            return (scores + by_seed < ndtri(self.accuracy)).astype(np.float64)
        return np.asarray(scores + by_seed)

    def study(self, generator: np.random.Generator) -> tuple[SeedTables, SeedTables]:
        groups = self.draw_groups(generator)
        numbers = None if len(groups) == self.groups else groups
        first, second = (
            SeedTables(
                variant=f"method {method}",
                seeds=tuple(range(self.seeds)),
                statistics=np.stack([scores, np.ones_like(scores)], axis=1),
                splits=("simulated",) * self.seeds,
                groups=numbers,
            )
            for method in range(2)
            for scores in [self.draw_scores(generator, groups)]
        )
        return first, second

    def studies(self, count: int) -> Iterable[tuple[SeedTables, SeedTables]]:
        generator = np.random.default_rng([5, self.seeds, self.size, int(100 * self.correlation)])
        return (self.study(generator) for _ in range(count))


def without_groups(
    studies: Iterable[tuple[SeedTables, SeedTables]],
) -> Iterable[tuple[SeedTables, SeedTables]]:
    return ((replace(a, groups=None), replace(b, groups=None)) for a, b in studies)


def table(studies_of_one_seed: int, studies_of_more: int) -> Iterable[str]:
    correlations = " | ".join(f"{correlation:g}" for correlation in CORRELATIONS)
    yield f"| scores, groups | items of a group | seeds | {correlations} | items as independent |"
    yield "|---|--:|--:|" + "--:|" * (len(CORRELATIONS) + 1)
    for name in KINDS:
        for size in SIZES:
            for seeds in SEEDS:
                studies = studies_of_one_seed if seeds == 1 else studies_of_more
                yield row(name, size, seeds, studies)


def row(name: str, size: int, seeds: int, studies: int) -> str:
    """One kind of scores and groups, over all correlations."""
    simulations = [
        GroupedSimulation(seeds=seeds, size=size, correlation=correlation, **KINDS[name])
        for correlation in CORRELATIONS
    ]
    rates = [detection_rate(one.studies(studies), ratio) for one in simulations]
    naive = simulations[CORRELATIONS.index(0.8)].studies(max(1, studies // 4))
    rates.append(detection_rate(without_groups(naive), ratio))
    cells = " | ".join(f"{100 * rate:.1f} %" for rate in rates)
    return f"| {name} | {size} | {seeds} | {cells} |"
