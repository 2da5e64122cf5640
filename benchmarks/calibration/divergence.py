"""How often equal methods are found to differ where trainings now and then diverge."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from benchmarks.calibration.skew import difference_of
from scipy.special import stdtr

from regard.evaluation.statistics.divergence import DivergenceCount, fisher_exact

RATES = ((0.0, 0.0), (0.1, 0.0), (0.1, 0.1), (0.2, 0.0), (0.2, 0.2), (0.5, 0.5), (0.8, 0.0))
"Rates of divergence of both methods."
DIVERGED = 20.0
"How much worse a diverged run is, in standard deviations of the others."

SECTION = """## Divergence: trainings that now and then fail

Two methods whose trainings are equal wherever they do not diverge; {studies:,} studies per row.
regard judges no mean over a variant of which a run diverged, and compares how often they diverge by
Fisher's exact test. *Better* is the fraction of studies that call one method better: no row may
exceed 6 %. *Diverges more often* is wrong where the rates are equal (at most 6 %), and right
where they are not. The last column is a t test over all runs, diverged ones included ({size:g}
standard deviations worse), where the method that diverges is better in its other runs by so much
that the means are equal: its errors are those of a tail that no seed has met.

A verdict is therefore about runs that do not diverge. That none of S did leaves rates open up to
1 − 0.05^(1/S): 63 % with 3 seeds, 45 % with 5, 26 % with 10.

{table}
"""


def section(studies: int) -> str:
    fewer = max(1, studies // 2)
    return SECTION.format(studies=fewer, size=DIVERGED, table="\n".join(table(fewer)))


def table(studies: int) -> Iterable[str]:
    yield "| diverge | seeds | better | diverges more often | t over all runs, equal means |"
    yield "|---|--:|--:|--:|--:|"
    for rates in RATES:
        for seeds in (3, 5, 10, 20):
            better, more, t = detection_rates(rates, seeds, studies)
            name = " and ".join(f"{100 * rate:.0f} %" for rate in rates)
            cells = " | ".join(f"{100 * rate:.1f} %" for rate in (better, more, t))
            yield f"| {name} | {seeds} | {cells} |"


def detection_rates(
    rates: tuple[float, float], seeds: int, studies: int
) -> tuple[float, float, float]:
    """Better by a mean, diverging more often, and different by a t test over all runs."""
    generator = np.random.default_rng([seeds, *(int(100 * rate) for rate in rates)])
    better = more = t = 0
    for _ in range(studies):
        scores = generator.standard_normal((2, seeds))
        diverged = generator.random((2, seeds)) < np.array(rates)[:, None]
        if diverged.any():
            counts = [DivergenceCount(int(one.sum()), seeds) for one in diverged]
            more += fisher_exact(*counts) < 0.05
        else:
            better += difference_of(scores).distinguishable
        # Shifted so that diverged and other runs together have equal means.
        a, b = scores + DIVERGED * (diverged - np.array(rates)[:, None])
        differences = a - b
        se = differences.std(ddof=1) / np.sqrt(seeds)
        t += 2 * stdtr(seeds - 1, -abs(differences.mean()) / se) < 0.05
    return better / studies, more / studies, t / studies
