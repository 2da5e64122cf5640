"""How often intervals of a score contain its true value where the items come in groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from benchmarks.calibration.groups import CORRELATIONS, GROUPS, SIZES, GroupedSimulation
from numpy.typing import NDArray

from regard.evaluation.statistics.intervals import Bootstrap, wilson, wilson_by_group
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
No number may be below 93 %; sampling error of a coverage of 95 % is ± {noise:.1f} (95 %).

*Items as independent* is Wilson's interval without the groups, at a correlation of 0.8. Intervals
of a high proportion are wide where groups are right or wrong as a whole: few groups hold a wrong
answer, and only they show how much groups vary.

{table}
"""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Fractions of intervals that contain the true value."""

    right_or_wrong: float
    graded: float
    as_independent: float


def interval_coverage(simulation: GroupedSimulation, *, studies: int) -> Coverage:
    """Coverage of the intervals of one model's score."""
    seed = (6, simulation.size, int(100 * simulation.correlation), int(100 * simulation.accuracy))
    generator = np.random.default_rng(seed)
    covered = np.zeros(3)
    for _ in range(studies):
        drawn = simulation.draw_groups(generator)
        groups = None if len(drawn) == simulation.groups else drawn
        [graded] = replace(simulation, is_right_or_wrong=False).draw_scores(generator, drawn)
        [is_right] = replace(simulation, is_right_or_wrong=True).draw_scores(generator, drawn) > 0
        intervals = (
            (wilson_by_group(is_right, groups), simulation.accuracy),
            (mean_interval(graded, groups), 0.0),
            (wilson(int(is_right.sum()), len(is_right)), simulation.accuracy),
        )
        covered += [low <= true <= high for (low, high), true in intervals]
    return Coverage(
        **dict(zip(("right_or_wrong", "graded", "as_independent"), covered / studies, strict=True))
    )


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
    for is_unequal, sizes in ((False, SIZES), (True, SIZES[1:])):
        graded = []
        for accuracy in ACCURACIES:
            for size in sizes:
                found = [
                    interval_coverage(
                        GroupedSimulation(
                            seeds=1,
                            size=size,
                            correlation=correlation,
                            is_unequal=is_unequal,
                            accuracy=accuracy,
                        ),
                        studies=studies,
                    )
                    for correlation in CORRELATIONS
                ]
                which = f"right {100 * accuracy:g} %, {'unequal' if is_unequal else 'equal'}"
                naive = found[CORRELATIONS.index(0.8)].as_independent
                cells = _cells([one.right_or_wrong for one in found])
                yield f"| {which} | {size} | {cells} | {100 * naive:.1f} % |"
                if accuracy == ACCURACIES[0]:
                    kind = "unequal" if is_unequal else "equal"
                    cells = _cells([one.graded for one in found])
                    graded.append(f"| graded, {kind} | {size} | {cells} | |")
        yield from graded


def _cells(fractions: list[float]) -> str:
    return " | ".join(f"{100 * fraction:.1f} %" for fraction in fractions)
