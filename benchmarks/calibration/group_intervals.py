"""How often intervals of a score contain its true value where the items come in groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from benchmarks.calibration.groups import CORRELATIONS, GROUPS, SIZES, GroupedSimulation
from numpy.typing import NDArray

from regard.evaluation.statistics.intervals import Bootstrap, wilson_by_group
from regard.evaluation.statistics.item_groups import (
    GroupNumbers,
    effective_groups,
    sum_by_group,
)

ACCURACIES = (0.5, 0.7, 0.9, 0.97)

SECTION = """## Coverage: intervals of a score over groups

Fraction of 95 % intervals that contain the true score, {studies:,} studies per number, {groups}
groups of one size or of log-normal sizes as above. *Right n %* is a proportion, whose interval is
Wilson's with the effective number of items; *graded* is a normal score, bootstrapped over groups.
No number of several items a group may be below 93 %; sampling error of a coverage of 95 % is ±
{noise:.1f} (95 %). With one item a group there are no groups, and *graded* is the plain percentile
bootstrap of {groups} independent items: about 93 %, for percentiles of so few are a little too
narrow.

*Items as independent* is Wilson's interval without the groups, at a correlation of 0.8. Intervals
of a high proportion are wide where groups are right or wrong as a whole: few groups hold a wrong
answer, and only they show how much groups vary.

{table}
"""


def proportion_coverage(
    simulation: GroupedSimulation, *, studies: int, by_group: bool = True
) -> float:
    """Coverage of the interval of one model's proportion of right answers."""
    rights = replace(simulation, is_right_or_wrong=True)
    covered = 0
    for groups, [scores] in _draws(rights, studies):
        low, high = wilson_by_group(scores > 0, groups if by_group else None)
        covered += low <= simulation.accuracy <= high
    return covered / studies


def mean_coverage(simulation: GroupedSimulation, *, studies: int) -> float:
    """Coverage of the interval of one model's mean graded score, which is 0."""
    graded = replace(simulation, is_right_or_wrong=False)
    covered = 0
    for groups, [scores] in _draws(graded, studies):
        low, high = mean_interval(scores, groups)
        covered += low <= 0 <= high
    return covered / studies


def _draws(
    simulation: GroupedSimulation, studies: int
) -> Iterable[tuple[GroupNumbers | None, NDArray[np.float64]]]:
    seed = (6, simulation.size, int(100 * simulation.correlation), int(100 * simulation.accuracy))
    generator = np.random.default_rng(seed)
    for _ in range(studies):
        drawn = simulation.draw_groups(generator)
        groups = None if len(drawn) == simulation.groups else drawn
        yield groups, simulation.draw_scores(generator, drawn)


def mean_interval(scores: NDArray[np.float64], groups: GroupNumbers | None) -> tuple[float, float]:
    """Bootstrap interval of the mean score."""
    table = sum_by_group(np.stack([scores, np.ones_like(scores)]), groups)
    [interval] = Bootstrap().intervals(
        table,
        lambda sums: (sums[0].sum(axis=-1) / sums[1].sum(axis=-1))[None],
        effective_groups=effective_groups(groups),
    )
    assert interval is not None
    return interval


def section(studies: int) -> str:
    fewer = max(1, studies // 4)
    noise = 196 * np.sqrt(0.05 * 0.95 / fewer)
    lines = "\n".join(table(fewer))
    return SECTION.format(studies=fewer, noise=noise, groups=GROUPS, table=lines)


def table(studies: int) -> Iterable[str]:
    correlations = " | ".join(f"{correlation:g}" for correlation in CORRELATIONS)
    yield f"| score, groups | items of a group | {correlations} | items as independent |"
    yield "|---|--:|" + "--:|" * (len(CORRELATIONS) + 1)
    for kind, sizes in (("equal", SIZES), ("unequal", SIZES[1:])):
        for accuracy in (*ACCURACIES, None):
            for size in sizes:
                simulations = [
                    GroupedSimulation(
                        seeds=1,
                        size=size,
                        correlation=correlation,
                        is_unequal=kind == "unequal",
                        accuracy=accuracy or 0.5,
                    )
                    for correlation in CORRELATIONS
                ]
                if accuracy is None:
                    found = [mean_coverage(one, studies=studies) for one in simulations]
                    yield f"| graded, {kind} | {size} | {_cells(found)} | |"
                    continue
                found = [proportion_coverage(one, studies=studies) for one in simulations]
                correlated = simulations[CORRELATIONS.index(0.8)]
                naive = proportion_coverage(correlated, studies=studies // 4, by_group=False)
                which = f"right {100 * accuracy:g} %, {kind}"
                yield f"| {which} | {size} | {_cells([*found, naive])} |"


def _cells(fractions: Iterable[float]) -> str:
    return " | ".join(f"{100 * fraction:.1f} %" for fraction in fractions)
