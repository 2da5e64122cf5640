"""Looks: what judging one study several times does to its error rate.

Whoever adds seeds until a difference shows gives chance several attempts. Each look is a t test at
the 5 % level over the seeds trained so far, and the looks share seeds, so the rate at which any of
them finds a difference between equal methods lies between 5 % and 5 % times the looks.

    looks at 3, 5 and 8 seeds    P(|t₃| > t(2) or |t₅| > t(4) or |t₈| > t(7)) = 10 %

The rate is simulated with normal differences of seeds, where a t test is exact. Variance over
items only lowers it: all looks share the items. Looks that were planned have levels of their own,
with which the rate is 5 % (`sequential.py`); others among them raise it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from itertools import chain, repeat

import numpy as np
from scipy.special import stdtrit

LEVEL = 0.95
SIMULATED_STUDIES = 200_000
"The standard error of a rate of 10 % is then 0.07 %."
STUDIES_AT_ONCE = 10_000


def wrong_verdict_rate(looks: Iterable[Collection[int]], *, levels: Iterable[float] = ()) -> float:
    """How often equal methods are found to differ at one of these looks, each a set of seeds.

    `levels` are those of the looks, 95 % where none are given. A look at one seed is no test of the
    methods, and of several at the same seeds the one at the lowest level counts."""
    tests: dict[frozenset[int], float] = {}
    for look, level in zip(looks, chain(levels, repeat(LEVEL)), strict=False):
        test = frozenset(look)
        if len(test) > 1:
            tests[test] = min(level, tests.get(test, 1.0))
    # The rate does not depend on which seeds they are: the same pattern is simulated once.
    numbers = {seed: number for number, seed in enumerate(sorted(frozenset().union(*tests)))}
    numbered = ((tuple(sorted(map(numbers.__getitem__, test))), tests[test]) for test in tests)
    return _simulate(tuple(sorted(numbered)))


@cache
def _simulate(tests: tuple[tuple[tuple[int, ...], float], ...]) -> float:
    if len(tests) < 2:
        return sum(1 - level for _, level in tests)
    ordered = [seeds for seeds, _ in tests]
    levels = np.array([level for _, level in tests])
    members = np.zeros((1 + max(map(max, ordered)), len(ordered)))
    for column, seeds in enumerate(ordered):
        members[list(seeds), column] = 1
    counts = members.sum(axis=0)
    critical = stdtrit(counts - 1, (1 + levels) / 2)
    generator = np.random.default_rng(0)
    wrong = 0
    for _ in range(SIMULATED_STUDIES // STUDIES_AT_ONCE):
        differences = generator.standard_normal((STUDIES_AT_ONCE, len(members)))
        means = differences @ members / counts
        variances = (differences**2 @ members - counts * means**2) / (counts - 1)
        wrong += int((np.abs(means) > critical * np.sqrt(variances / counts)).any(axis=1).sum())
    return wrong / SIMULATED_STUDIES
