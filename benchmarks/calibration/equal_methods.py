"""How often equal methods are found to differ: type I error at the 5 % level."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from benchmarks.calibration.simulation import Simulation, heavy_tailed_noise, outlier_noise
from scipy.special import stdtr

from regard.evaluation.statistics.seed_tables import perplexity, ratio
from regard.evaluation.statistics.significance import MethodDifference, method_difference

BALANCES = {"items, 10 : 1": 0.1, "equal": 1.0, "seeds, 10 : 1": 10.0, "seeds, 100 : 1": 100.0}

SECTION = """## Type I error: equal methods

{studies:,} studies per row at the 5 % level: the fraction that find a difference.
No row of **regard** may exceed 6 %; sampling error of a rate of 5 % is ± {noise:.1f} (95 %). The
score is perplexity; *in nats*, its logarithm. A difference of perplexities is no
more certain than the perplexities themselves, and t(1) = 12.7: two seeds on few items detect almost
nothing in perplexity, and little more in nats.

Other tests on the same data (in nats), for comparison:

- *Welch–Satterthwaite*: the same standard error, with Welch–Satterthwaite degrees of freedom
  instead of S−1. Less conservative where items vary most, but above 6 % with two or three seeds.
- *seeds alone*: a paired t test over seeds, which ignores the sampling of items.
- *items alone*: a test over items, which ignores the sampling of seeds. It is a statement about the
  trained models; read as one about the methods, it is wrong most of the time where seeds vary most.

{table}
"""


def section(studies: int) -> str:
    noise = 196 * np.sqrt(0.05 * 0.95 / studies)
    return SECTION.format(studies=studies, noise=noise, table="\n".join(table(studies)))


def p_by_items(d: MethodDifference) -> float:
    return 2 * float(stdtr(d.n - 1, -abs(d.value) / d.se_items))


def p_by_seeds(d: MethodDifference) -> float:
    return 2 * float(stdtr(d.seeds - 1, -abs(d.value) / (d.se_seeds or np.inf)))


def p_by_welch(d: MethodDifference) -> float:
    """The same standard error with Welch–Satterthwaite degrees of freedom."""
    seeds, items = (d.se_seeds or 0.0) ** 2, d.se_items**2
    df = (seeds + items) ** 2 / (seeds**2 / (d.seeds - 1) + items**2 / (d.n - 1))
    return 2 * float(stdtr(df, -abs(d.value) / d.se))


def table(studies: int) -> Iterable[str]:
    rules = "regard | regard, in nats | Welch–Satterthwaite | seeds alone | items alone"
    yield f"| dominant variance | seeds | n | {rules} |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    sizes = [(seeds, n) for seeds in (2, 3, 5) for n in (50, 300, 2000)]
    simulations = [
        (name, Simulation.balanced(balance, seeds=seeds, n=n))
        for name, balance in BALANCES.items()
        for seeds, n in sizes
    ]
    simulations += [
        (name, Simulation.balanced(3.0, seeds=seeds, n=300, noise=noise))
        for name, noise in (
            ("seeds, heavy tails", heavy_tailed_noise),
            ("seeds, with outliers", outlier_noise),
        )
        for seeds in (2, 3, 5)
    ]
    for name, simulation in simulations:
        detections = np.zeros(5)
        for a, b in simulation.studies(studies):
            d, nats = method_difference(a, b, perplexity), method_difference(a, b, ratio)
            others = (p_by_welch(nats), p_by_seeds(nats), p_by_items(nats))
            detections += [d.distinguishable, nats.distinguishable, *(p < 0.05 for p in others)]
        cells = " | ".join(f"{100 * rate:.1f} %" for rate in detections / studies)
        yield f"| {name} | {simulation.seeds} | {simulation.n:,} | {cells} |"
