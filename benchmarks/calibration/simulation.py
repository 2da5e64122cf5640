"""Simulated studies of methods whose losses vary by seed and by item.

Losses are simulated, no model is trained. The loss of method m, seed s, item i, in nats per token:

    4.5 + item_i + seed_s + method_seed_ms + method_item_mi + residual_msi      new draws per study

`method_seed` is the interaction of method and seed, `method_item` that of method and item. Lengths
are log-normal; perplexity is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.evaluation.statistics.seed_tables import ScoreFunction, SeedTables, perplexity
from regard.evaluation.statistics.significance import MethodDifference, method_difference

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
