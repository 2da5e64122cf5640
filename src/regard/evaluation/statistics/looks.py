"""Looks: what judging one study several times does to its error rate.

Whoever adds seeds until a difference shows gives chance several attempts. Each look is a t test at
the 5 % level over the seeds trained so far, and the looks share seeds, so the rate at which any of
them finds a difference between equal methods lies between 5 % and 5 % times the looks.

    looks at 3, 5 and 8 seeds    P(|t₃| > t(2) or |t₅| > t(4) or |t₈| > t(7)) = 10 %

The rate is simulated with normal differences of seeds, where a t test is exact. Variance over
items only lowers it: all looks share the items.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache

import numpy as np
from scipy.special import stdtrit

SIMULATED_STUDIES = 200_000
"The standard error of a rate of 10 % is then 0.07 %."
STUDIES_AT_ONCE = 10_000


def wrong_verdict_rate(looks: Iterable[Collection[int]], *, level: float = 0.95) -> float:
    """How often equal methods are found to differ at one of these looks, each a set of seeds.

    A look at one seed is no test of the methods, and one at the same seeds is no other look."""
    tests = {frozenset(look) for look in looks if len(set(look)) > 1}
    # The rate does not depend on which seeds they are: the same pattern is simulated once.
    numbers = {seed: number for number, seed in enumerate(sorted(frozenset().union(*tests)))}
    return _simulate(frozenset(frozenset(map(numbers.__getitem__, test)) for test in tests), level)


@cache
def _simulate(tests: frozenset[frozenset[int]], level: float) -> float:
    if len(tests) < 2:
        return (1 - level) * len(tests)
    ordered = sorted(map(sorted, tests))
    members = np.zeros((1 + max(map(max, ordered)), len(ordered)))
    for column, seeds in enumerate(ordered):
        members[seeds, column] = 1
    counts = members.sum(axis=0)
    critical = stdtrit(counts - 1, (1 + level) / 2)
    generator = np.random.default_rng(0)
    wrong = 0
    for _ in range(SIMULATED_STUDIES // STUDIES_AT_ONCE):
        differences = generator.standard_normal((STUDIES_AT_ONCE, len(members)))
        means = differences @ members / counts
        variances = (differences**2 @ members - counts * means**2) / (counts - 1)
        wrong += int((np.abs(means) > critical * np.sqrt(variances / counts)).any(axis=1).sum())
    return wrong / SIMULATED_STUDIES
