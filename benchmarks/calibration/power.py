"""How often a planted difference is detected, and the detectable difference as reported."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from benchmarks.calibration.simulation import Simulation, detection_rate

from regard.evaluation.statistics.seed_tables import SeedTables, perplexity
from regard.evaluation.statistics.significance import method_difference

PLANTED = (0.5, 1, 2, 5, 10, 20)
"Percent of perplexity."

SECTION = """## Power: how often a planted difference is detected

The planted difference is in percent of perplexity (about 90). Standard deviations in nats per
token: 0.01 between seeds (about 1 % of perplexity), 0.3 for the interaction of item and method,
0.15 residual. {studies:,} studies per cell.

*Detectable* is the median of the minimum detectable difference that regard reports, and the last
column how often a difference of that size is detected; the nominal power is 80 %. With two seeds
the reported value is too optimistic, because their spread is often small by chance; verdicts on two
seeds say so. A large difference also increases the variance of the worse method's perplexity, which
the reported value does not include.

{table}
"""


def section(studies: int) -> str:
    fewer = max(1, studies // 10)
    return SECTION.format(studies=fewer, table="\n".join(table(fewer)))


def table(studies: int) -> Iterable[str]:
    planted_names = " | ".join(f"{percent:g} %" for percent in PLANTED)
    yield f"| seeds | n | {planted_names} | detectable, as reported | detected when planted |"
    yield "|--:|--:|" + "--:|" * (len(PLANTED) + 2)
    for seeds in (2, 3, 5, 10, 20):
        for n in (200, 1000, 5000):
            simulation = Simulation(seeds=seeds, n=n, method_seed_std=0.01)
            rates = [
                detection_rate(simulation.studies(studies, planted=np.log1p(percent / 100), seed=2))
                for percent in PLANTED
            ]
            reported = float(
                np.median([_relative_detectable(a, b) for a, b in simulation.studies(200, seed=3)])
            )
            actual = detection_rate(simulation.studies(studies, planted=np.log1p(reported), seed=4))
            cells = " | ".join(f"{100 * rate:.0f} %" for rate in rates)
            yield f"| {seeds} | {n:,} | {cells} | {100 * reported:.2g} % | {100 * actual:.0f} % |"


def _relative_detectable(a: SeedTables, b: SeedTables) -> float:
    """The minimum detectable difference relative to the simulated perplexity."""
    return method_difference(a, b, perplexity).min_detectable / float(np.exp(4.5))
