"""Holm's correction: several differences tested together (Holm, 1979).

p₍₁₎ ≤ p₍₂₎ ≤ …        the smallest is tested at α/m, the next at α/(m−1), until one is not rejected
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regard.evaluation.statistics.seed_tables import Values
from regard.evaluation.statistics.significance import ALPHA, MethodDifference


def holm(differences: Sequence[MethodDifference]) -> list[MethodDifference]:
    """Correct several differences for multiple comparisons (Holm, 1979).

    Each interval gets the level at which its difference was tested: the smallest p 1 − α/m, the
    next 1 − α/(m−1), and from the first that is not rejected on, the level of that one. So an
    interval excludes 0 exactly where Holm rejects. Simultaneous coverage of all intervals is
    guaranteed only where none is rejected (then all are at 1 − α/m).
    """
    if not differences:
        return []
    if len({difference.level for difference in differences}) > 1:
        raise ValueError("differences corrected together need one level")
    if any(difference.comparisons > 1 for difference in differences):
        raise ValueError("these differences were corrected before")
    count, alpha = len(differences), 1 - differences[0].level
    differences = [replace(difference, comparisons=count) for difference in differences]
    p = np.array([difference.p for difference in differences])
    return [
        replace(difference, level=1 - tested_at, p_adjusted=float(p_adjusted))
        for difference, tested_at, p_adjusted in zip(
            differences, _holm_alphas(p, alpha, count), holm_adjusted(p), strict=True
        )
    ]


def holm_at_looks(
    differences: Sequence[MethodDifference], *, comparisons: int
) -> list[MethodDifference]:
    """The same for differences at planned looks, which need not be one: a comparison that is
    decided stays at its look while others go on.

    Holm's steps are taken with `overall_p`, the p of the whole plan, and each difference is tested
    at its look's share of the rate α/m, α/(m−1), … of its step (Liu and Anderson, 2008; Ye, Li, Liu
    and Yao, 2013). m counts all `comparisons` of the study, at every look, whether they could be
    made or not: it may not depend on what the looks show."""
    differences = [replace(one, comparisons=comparisons) for one in differences]
    looks = [one.look for one in differences if one.look is not None]
    if len(looks) < len(differences):
        raise ValueError("these differences are at no planned look")
    overall = np.array(
        [
            look.plan.overall_p(one.p, look=look.index)
            for one, look in zip(differences, looks, strict=True)
        ]
    )
    tested_at = _holm_alphas(overall, ALPHA, comparisons)
    adjusted = holm_adjusted(overall, count=comparisons)
    return [
        replace(one, level=1 - look.alpha(float(alpha)), p_adjusted=float(p_adjusted))
        for one, look, alpha, p_adjusted in zip(
            differences, looks, tested_at, adjusted, strict=True
        )
    ]


def _holm_alphas(p: Values, alpha: float, count: int) -> Values:
    """The level at which Holm tests each p, of `count` that are tested together."""
    # Equal p are tested at one level, so that the order of the variants does not matter.
    smaller = np.searchsorted(np.sort(p), p, side="left")
    accepted = (count - smaller) * p >= alpha
    steps = np.minimum(smaller, smaller[accepted].min()) if accepted.any() else smaller
    return np.asarray(alpha / (count - steps))


def holm_adjusted(p_values: Sequence[float] | Values, *, count: int = 0) -> Values:
    """Each p, adjusted for all of them being tested together, or `count` (Holm, 1979)."""
    p = np.asarray(p_values, dtype=np.float64)
    count = count or len(p)
    order = np.argsort(p)
    smaller = np.searchsorted(p[order], p, side="left")
    adjusted = np.empty(len(p))
    corrected = np.minimum(1.0, (count - smaller) * p)
    adjusted[order] = np.maximum.accumulate(corrected[order])
    return adjusted
