"""What a split could show, before anything is trained: the smallest visible difference in accuracy.

    se = √(d / n)        difference = se · ratio of significance.py, found four times in five

Two models that disagree on a fraction d of n rows differ by ±1 on these and by 0 on the others, so
d bounds the variance of the paired difference. Seeds add to it: with few of them more is needed.
"""

from __future__ import annotations

import math

from regard.evaluation.statistics.significance import detectable_ratio

DISAGREEMENT = 0.2
"Assumed fraction of rows on which one of two models is right and the other wrong."
LEVEL = 0.95


def smallest_difference(units: int, *, disagreement: float = DISAGREEMENT) -> float | None:
    """Difference of two accuracies that is found four times in five on so many rows, or groups
    where rows have them; None where two rows are not enough for any."""
    if units < 2:
        return None
    return math.sqrt(disagreement / units) * detectable_ratio(units - 1, LEVEL)
