"""The standard error over items: the jackknife beside the bootstrap."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from benchmarks.calibration.simulation import Simulation
from scipy.special import stdtr

from regard.evaluation.statistics.seed_tables import SeedTables, Values, perplexity
from regard.evaluation.statistics.significance import method_difference

SECTION = """## Standard error over items: jackknife or bootstrap

Standard errors over items of the same studies by both methods (5 seeds, equal variance of seeds and
items, a planted difference that is detected sometimes, {studies:,} studies
per row, 2,000 resamples each). regard uses the jackknife.

{table}
"""


def section(studies: int) -> str:
    fewer = max(1, studies // 50)
    return SECTION.format(studies=fewer, table="\n".join(table(fewer)))


def bootstrap_se(
    a: SeedTables, b: SeedTables, *, resamples: int, generator: np.random.Generator
) -> float:
    """Bootstrap standard error over items, to check the jackknife."""
    n = a.statistics.shape[-1]
    weights = generator.multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)
    value: Values = np.zeros(resamples)
    for method, sign in ((a, 1.0), (b, -1.0)):
        sums = np.moveaxis(method.statistics @ weights.T, 1, 0)
        value = value + sign * perplexity(sums).mean(axis=0)
    return float(value.std(ddof=1))


def table(studies: int) -> Iterable[str]:
    yield "| n | bootstrap ÷ jackknife, mean | 5 % to 95 % of studies | same verdict |"
    yield "|--:|--:|--:|--:|"
    for n in (50, 300, 2000):
        simulation = Simulation.balanced(1.0, seeds=5, n=n)
        generator = np.random.default_rng(n)
        ratios, same = [], 0
        for _ in range(studies):
            first, second = simulation.study(generator, planted=0.06)
            d = method_difference(second, first, perplexity)
            se_bootstrap = bootstrap_se(second, first, resamples=2000, generator=generator)
            ratios.append(se_bootstrap / d.se_items)
            p = 2 * stdtr(d.seeds - 1, -abs(d.value) / np.hypot(d.se_seeds or 0.0, se_bootstrap))
            same += (p < 0.05) == d.distinguishable
        low, high = np.quantile(ratios, [0.05, 0.95])
        yield (
            f"| {n:,} | {np.mean(ratios):.3f} | {low:.3f} to {high:.3f} "
            f"| {100 * same / studies:.1f} % |"
        )
