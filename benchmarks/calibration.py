"""Type I error and power of the comparison of methods, by simulation.

    .venv/bin/python benchmarks/calibration.py --out docs/studies/calibration.md

Losses are simulated, no model is trained. The loss of method m, seed s, item i, in nats per token:

    4.5 + item_i + seed_s + method_seed_ms + method_item_mi + residual_msi      new draws per study

`method_seed` is the interaction of method and seed, `method_item` that of method and item. Lengths
are log-normal; perplexity is compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from regard.evaluation.statistics.seed_tables import (
    ScoreFunction,
    SeedTables,
    Values,
    perplexity,
    ratio,
)
from regard.evaluation.statistics.significance import MethodDifference, holm, method_difference

COMMAND = ".venv/bin/python benchmarks/calibration.py --out docs/studies/calibration.md"

Noise = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]


def normal_noise(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return generator.standard_normal(shape)


def heavy_tailed_noise(
    generator: np.random.Generator, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Student's t with 3 degrees of freedom: an occasional seed far from the others."""
    return np.asarray(generator.standard_t(3, shape) / np.sqrt(3))


def outlier_noise(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """One run in ten is ten standard deviations worse than the others."""
    return generator.standard_normal(shape) + 10 * (generator.random(shape) < 0.1)


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Sizes and standard deviations of simulated studies, in nats per token."""

    seeds: int
    n: int
    method_seed_std: float
    method_item_std: float = 0.3
    residual_std: float = 0.15
    noise: Noise = normal_noise

    @classmethod
    def balanced(
        cls, seeds_to_items: float, *, seeds: int, n: int, noise: Noise = normal_noise
    ) -> Simulation:
        """Standard errors by seeds and items in this ratio; the larger is 0.01 nats."""
        by_seeds, by_items = min(1.0, seeds_to_items), min(1.0, 1 / seeds_to_items)
        item_std = 0.01 * by_items * float(np.sqrt(n))
        return cls(
            seeds=seeds,
            n=n,
            method_seed_std=0.01 * by_seeds * float(np.sqrt(seeds)),
            method_item_std=item_std,
            residual_std=item_std / 2,
            noise=noise,
        )

    def study(
        self, generator: np.random.Generator, *, methods: int = 2, planted: float = 0.0
    ) -> list[SeedTables]:
        """Tables of each method; the loss of all but the first is higher by `planted`."""
        tokens = 2 + np.floor(generator.lognormal(3.0, 0.7, self.n))
        shared = 4.5 + 0.6 * generator.standard_normal(self.n)
        shared = shared + 0.02 * generator.standard_normal((self.seeds, 1))
        tables = []
        for method in range(methods):
            loss = shared + (planted if method else 0.0)
            loss = loss + self.method_seed_std * self.noise(generator, (self.seeds, 1))
            loss = loss + self.method_item_std * generator.standard_normal(self.n)
            loss = loss + self.residual_std * generator.standard_normal((self.seeds, self.n))
            statistics = np.stack([loss * tokens, np.broadcast_to(tokens, loss.shape)], axis=1)
            tables.append(
                SeedTables(
                    variant=f"method {method}",
                    seeds=tuple(range(self.seeds)),
                    statistics=statistics,
                    splits=("simulated",) * self.seeds,
                )
            )
        return tables

    def studies(
        self, count: int, *, planted: float = 0.0, seed: int = 0
    ) -> Iterable[tuple[SeedTables, SeedTables]]:
        generator = np.random.default_rng([seed, self.seeds, self.n])
        for _ in range(count):
            first, second = self.study(generator, planted=planted)
            yield second, first


def detection_rate(
    studies: Iterable[tuple[SeedTables, SeedTables]], statistic: ScoreFunction = perplexity
) -> float:
    """Fraction of studies with a distinguishable difference."""
    detected = [method_difference(a, b, statistic).distinguishable for a, b in studies]
    return sum(detected) / len(detected)


def familywise_detection_rate(
    simulation: Simulation,
    studies: int,
    *,
    methods: int,
    correct: Callable[..., list[MethodDifference]],
) -> float:
    """Fraction of studies in which any of several equal methods differs from the first."""
    generator = np.random.default_rng([1, simulation.seeds, simulation.n])
    detections = 0
    for _ in range(studies):
        first, *others = simulation.study(generator, methods=methods)
        differences = [method_difference(other, first, perplexity) for other in others]
        detections += any(difference.distinguishable for difference in correct(differences))
    return detections / studies


def p_by_items(d: MethodDifference) -> float:
    return 2 * float(stdtr(d.n - 1, -abs(d.value) / d.se_items))


def p_by_seeds(d: MethodDifference) -> float:
    return 2 * float(stdtr(d.seeds - 1, -abs(d.value) / (d.se_seeds or np.inf)))


def p_by_welch(d: MethodDifference) -> float:
    """The same standard error with Welch–Satterthwaite degrees of freedom."""
    seeds, items = (d.se_seeds or 0.0) ** 2, d.se_items**2
    df = (seeds + items) ** 2 / (seeds**2 / (d.seeds - 1) + items**2 / (d.n - 1))
    return 2 * float(stdtr(df, -abs(d.value) / d.se))


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


BALANCES = {"items, 10 : 1": 0.1, "equal": 1.0, "seeds, 10 : 1": 10.0, "seeds, 100 : 1": 100.0}


def equal_methods(studies: int) -> Iterable[str]:
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


def jackknife_and_bootstrap(studies: int) -> Iterable[str]:
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


PLANTED = (0.5, 1, 2, 5, 10, 20)
"Percent of perplexity."


def power(studies: int) -> Iterable[str]:
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


def several_methods(studies: int) -> Iterable[str]:
    yield "| methods besides the reference | seeds | regard (Holm) | uncorrected |"
    yield "|--:|--:|--:|--:|"
    for methods in (3, 6):
        for seeds in (3, 5):
            simulation = Simulation.balanced(10.0, seeds=seeds, n=100)
            rates = [
                familywise_detection_rate(simulation, studies, methods=methods + 1, correct=correct)
                for correct in (holm, list)
            ]
            cells = " | ".join(f"{100 * rate:.1f} %" for rate in rates)
            yield f"| {methods} | {seeds} | {cells} |"


PAGE = """# Calibration of verdicts between methods

Made by `{command}`; losses are simulated, no model is trained.
The simulation is described at the top of `benchmarks/calibration.py`, the test in
`src/regard/evaluation/statistics/significance.py`.
`tests/evaluation/statistics/test_significance.py` asserts the 6 % below.

## Type I error: equal methods

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

{equal}

## Several equal methods against one reference

Fraction of studies in which at least one variant differs (family-wise error), {families:,} studies
per row, n = 100.

{several}

## Standard error over items: jackknife or bootstrap

Standard errors over items of the same studies by both methods (5 seeds, equal variance of seeds and
items, a planted difference that is detected sometimes, {bootstraps:,} studies
per row, 2,000 resamples each). regard uses the jackknife.

{jackknife}

## Power: how often a planted difference is detected

The planted difference is in percent of perplexity (about 90). Standard deviations in nats per
token: 0.01 between seeds (about 1 % of perplexity), 0.3 for the interaction of item and method,
0.15 residual. {powers:,} studies per cell.

*Detectable* is the median of the minimum detectable difference that regard reports, and the last
column how often a difference of that size is detected; the nominal power is 80 %. With two seeds
the reported value is too optimistic, because their spread is often small by chance; verdicts on two
seeds say so. A large difference also increases the variance of the worse method's perplexity, which
the reported value does not include.

{power}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=4000, help="per row of equal methods")
    parser.add_argument("--out", type=Path, help="the Markdown page; printed by default")
    arguments = parser.parse_args()
    began = time.perf_counter()
    fewer = max(1, arguments.studies // 10)
    page = PAGE.format(
        command=COMMAND,
        studies=arguments.studies,
        noise=196 * np.sqrt(0.05 * 0.95 / arguments.studies),
        families=arguments.studies // 2,
        bootstraps=max(1, arguments.studies // 50),
        powers=fewer,
        equal="\n".join(equal_methods(arguments.studies)),
        several="\n".join(several_methods(arguments.studies // 2)),
        jackknife="\n".join(jackknife_and_bootstrap(max(1, arguments.studies // 50))),
        power="\n".join(power(fewer)),
    )
    if arguments.out is None:
        print(page)
    else:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(page, encoding="utf-8")
        print(f"{arguments.out}: {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
