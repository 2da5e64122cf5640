"""How often a study of equal methods finds a difference, and how often a planted one is found.

    .venv/bin/python benchmarks/calibration.py --out docs/studies/calibration.md

Figures are simulated, no model is trained. The loss of method m, seed s, item i, in nats a token:

    4.5 + item_i + seed_s + trained_ms + suits_mi + luck_msi        each drawn anew for each study

`trained` is what a seed does to one method's model, `suits` what an item has for or against one
method whichever seed trained it, `luck` the rest. Lengths are log-normal; perplexity is compared.
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


def bell(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return generator.standard_normal(shape)


def heavy(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Student's t with 3 degrees of freedom: now and then a seed far from the others."""
    return np.asarray(generator.standard_t(3, shape) / np.sqrt(3))


def stumbling(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """One training in ten ends ten deviations worse than the others."""
    return generator.standard_normal(shape) + 10 * (generator.random(shape) < 0.1)


@dataclass(frozen=True, kw_only=True)
class World:
    """What varies, and how much: all in nats a token."""

    seeds: int
    n: int
    trained: float
    suits: float = 0.3
    luck: float = 0.15
    noise: Noise = bell

    @classmethod
    def balanced(cls, seeds_to_items: float, *, seeds: int, n: int, noise: Noise = bell) -> World:
        """Seeds add so many times the standard error that items add; the larger is 0.01 nats."""
        by_seeds, by_items = min(1.0, seeds_to_items), min(1.0, 1 / seeds_to_items)
        suits = 0.01 * by_items * float(np.sqrt(n))
        trained = 0.01 * by_seeds * float(np.sqrt(seeds))
        return cls(seeds=seeds, n=n, trained=trained, suits=suits, luck=suits / 2, noise=noise)

    def study(
        self, generator: np.random.Generator, *, methods: int = 2, planted: float = 0.0
    ) -> list[SeedTables]:
        """Tables of each method; all but the first lose `planted` nats a token more."""
        tokens = 2 + np.floor(generator.lognormal(3.0, 0.7, self.n))
        shared = 4.5 + 0.6 * generator.standard_normal(self.n)
        shared = shared + 0.02 * generator.standard_normal((self.seeds, 1))
        tables = []
        for method in range(methods):
            loss = shared + (planted if method else 0.0)
            loss = loss + self.trained * self.noise(generator, (self.seeds, 1))
            loss = loss + self.suits * generator.standard_normal(self.n)
            loss = loss + self.luck * generator.standard_normal((self.seeds, self.n))
            columns = np.stack([loss * tokens, np.broadcast_to(tokens, loss.shape)], axis=1)
            tables.append(
                SeedTables(
                    variant=f"method {method}",
                    seeds=tuple(range(self.seeds)),
                    statistics=columns,
                    splits=("simulated",) * self.seeds,
                )
            )
        return tables

    def studies(
        self, many: int, *, planted: float = 0.0, seed: int = 0
    ) -> Iterable[tuple[SeedTables, SeedTables]]:
        generator = np.random.default_rng([seed, self.seeds, self.n])
        for _ in range(many):
            first, second = self.study(generator, planted=planted)
            yield second, first


def share_found(
    studies: Iterable[tuple[SeedTables, SeedTables]], statistic: ScoreFunction = perplexity
) -> float:
    found = [method_difference(a, b, statistic).distinguishable for a, b in studies]
    return sum(found) / len(found)


def families_with_a_find(
    world: World, studies: int, *, methods: int, judged: Callable[..., list[MethodDifference]]
) -> float:
    """Share of studies in which any of several equal methods differs from the first."""
    generator = np.random.default_rng([1, world.seeds, world.n])
    finds = 0
    for _ in range(studies):
        first, *others = world.study(generator, methods=methods)
        differences = [method_difference(other, first, perplexity) for other in others]
        finds += any(difference.distinguishable for difference in judged(differences))
    return finds / studies


def p_by_items(d: MethodDifference) -> float:
    return 2 * float(stdtr(d.n - 1, -abs(d.value) / d.se_items))


def p_by_seeds(d: MethodDifference) -> float:
    return 2 * float(stdtr(d.seeds - 1, -abs(d.value) / (d.se_seeds or np.inf)))


def p_by_welch(d: MethodDifference) -> float:
    """The same standard error, with the degrees of freedom of Welch and Satterthwaite."""
    seeds, items = (d.se_seeds or 0.0) ** 2, d.se_items**2
    freedom = (seeds + items) ** 2 / (seeds**2 / (d.seeds - 1) + items**2 / (d.n - 1))
    return 2 * float(stdtr(freedom, -abs(d.value) / d.se))


def bootstrap_se(
    a: SeedTables, b: SeedTables, *, draws: int, generator: np.random.Generator
) -> float:
    """Standard error over items as a bootstrap has it: the oracle of the jackknife."""
    n = a.statistics.shape[-1]
    weights = generator.multinomial(n, np.full(n, 1 / n), size=draws).astype(float)
    value: Values = np.zeros(draws)
    for method, sign in ((a, 1.0), (b, -1.0)):
        sums = np.moveaxis(method.statistics @ weights.T, 1, 0)
        value = value + sign * perplexity(sums).mean(axis=0)
    return float(value.std(ddof=1))


BALANCES = {"items, 10 : 1": 0.1, "both alike": 1.0, "seeds, 10 : 1": 10.0, "seeds, 100 : 1": 100.0}


def equal_methods(studies: int) -> Iterable[str]:
    rules = "regard | regard, in nats | Welch's freedom | seeds alone | items alone"
    yield f"| what varies most | seeds | n | {rules} |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    sizes = [(seeds, n) for seeds in (2, 3, 5) for n in (50, 300, 2000)]
    worlds = [
        (name, World.balanced(balance, seeds=seeds, n=n))
        for name, balance in BALANCES.items()
        for seeds, n in sizes
    ]
    worlds += [
        (name, World.balanced(3.0, seeds=seeds, n=300, noise=noise))
        for name, noise in (("seeds, heavy tails", heavy), ("seeds, some stumble", stumbling))
        for seeds in (2, 3, 5)
    ]
    for name, world in worlds:
        found = np.zeros(5)
        for a, b in world.studies(studies):
            d, nats = method_difference(a, b, perplexity), method_difference(a, b, ratio)
            others = (p_by_welch(nats), p_by_seeds(nats), p_by_items(nats))
            found += [d.distinguishable, nats.distinguishable, *(p < 0.05 for p in others)]
        cells = " | ".join(f"{100 * share:.1f} %" for share in found / studies)
        yield f"| {name} | {world.seeds} | {world.n:,} | {cells} |"


def jackknife_and_bootstrap(studies: int) -> Iterable[str]:
    yield "| n | bootstrap ÷ jackknife, mean | 5 % to 95 % of studies | same verdict |"
    yield "|--:|--:|--:|--:|"
    for n in (50, 300, 2000):
        world = World.balanced(1.0, seeds=5, n=n)
        generator = np.random.default_rng(n)
        ratios, same = [], 0
        for _ in range(studies):
            first, second = world.study(generator, planted=0.06)
            d = method_difference(second, first, perplexity)
            drawn = bootstrap_se(second, first, draws=2000, generator=generator)
            ratios.append(drawn / d.se_items)
            p = 2 * stdtr(d.seeds - 1, -abs(d.value) / np.hypot(d.se_seeds or 0.0, drawn))
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
    yield f"| seeds | n | {planted_names} | can show, as regard says | found when planted |"
    yield "|--:|--:|" + "--:|" * (len(PLANTED) + 2)
    for seeds in (2, 3, 5, 10, 20):
        for n in (200, 1000, 5000):
            world = World(seeds=seeds, n=n, trained=0.01)
            shares = [
                share_found(world.studies(studies, planted=np.log1p(percent / 100), seed=2))
                for percent in PLANTED
            ]
            said = float(np.median([_said(a, b) for a, b in world.studies(200, seed=3)]))
            truth = share_found(world.studies(studies, planted=np.log1p(said), seed=4))
            cells = " | ".join(f"{100 * share:.0f} %" for share in shares)
            yield f"| {seeds} | {n:,} | {cells} | {100 * said:.2g} % | {100 * truth:.0f} % |"


def _said(a: SeedTables, b: SeedTables) -> float:
    """The detectable difference as a share of the perplexity that the simulated methods have."""
    return method_difference(a, b, perplexity).detectable / float(np.exp(4.5))


def several_methods(studies: int) -> Iterable[str]:
    yield "| methods beside the reference | seeds | regard (Holm) | each for itself |"
    yield "|--:|--:|--:|--:|"
    for methods in (3, 6):
        for seeds in (3, 5):
            world = World.balanced(10.0, seeds=seeds, n=100)
            shares = [
                families_with_a_find(world, studies, methods=methods + 1, judged=judged)
                for judged in (holm, list)
            ]
            cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
            yield f"| {methods} | {seeds} | {cells} |"


PAGE = """# Calibration: what a verdict between methods is worth

Made by `{command}`; simulated figures, no model is trained.
What is drawn is described at the top of `benchmarks/calibration.py`; the rule is in
`src/regard/evaluation/statistics/significance.py`.
`tests/evaluation/statistics/test_significance.py` asserts the 6 % below.

## Equal methods: how often a difference is found all the same

{studies:,} studies a row, at a level of 95 %. No row of **regard** may be above 6 %; chance alone
moves a share of 5 % by ± {noise:.1f} (95 %). Perplexity is compared; *in nats* its logarithm is.
A difference of perplexities is known no better than the perplexities themselves, and t(1) = 12.7:
two seeds on few items find next to nothing in perplexity, and a little more in nats.

Beside it, what other rules find in the same figures (in nats):

- *Welch's freedom*: the same standard error with the degrees of freedom of Welch and Satterthwaite
  instead of S−1. Less cautious where items vary most, but above 6 % with two or three seeds.
- *seeds alone*: a paired t test over seeds, which forgets that other items would have been other.
- *items alone*: a test over items, which forgets that other seeds would have been other. It speaks
  of the trained models; taken to speak of the methods it is wrong most of the time where seeds
  vary most.

{equal}

## Several equal methods against one reference

Share of studies in which at least one differs, {families:,} studies a row, n = 100.

{several}

## Items: jackknife or bootstrap

Standard errors over items of the same studies by both ways (5 seeds, both kinds of luck alike, a
planted difference that is found now and then, {bootstraps:,} studies a row, 2,000 draws each).
The jackknife is used everywhere.

{jackknife}

## Power: how often a planted difference is found

The planted difference is in percent of perplexity (about 90). A training's seed moves its loss by
0.01 nats a token (about 1 % of perplexity), an item suits or does not suit a method by 0.3, luck
is 0.15. {powers:,} studies a cell.

*Can show* is the median of what regard names as detectable, and the last column how often a
difference of that very size is found. 80 % is what is promised. Two seeds promise too much: their
spread is often small by luck, and a verdict on two seeds says so. And a large difference makes the
worse method's perplexity vary more, which the promise does not know.

{power}
"""


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--studies", type=int, default=4000, help="studies a row, equal methods")
    asked.add_argument("--out", type=Path, help="the Markdown page; printed where none is named")
    given = asked.parse_args()
    began = time.perf_counter()
    fewer = max(1, given.studies // 10)
    page = PAGE.format(
        command=COMMAND,
        studies=given.studies,
        noise=196 * np.sqrt(0.05 * 0.95 / given.studies),
        families=given.studies // 2,
        bootstraps=max(1, given.studies // 50),
        powers=fewer,
        equal="\n".join(equal_methods(given.studies)),
        several="\n".join(several_methods(given.studies // 2)),
        jackknife="\n".join(jackknife_and_bootstrap(max(1, given.studies // 50))),
        power="\n".join(power(fewer)),
    )
    if given.out is None:
        print(page)
    else:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(page, encoding="utf-8")
        print(f"{given.out}: {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
