"""What the difference between a model and a baseline says of the model."""

from __future__ import annotations

from enum import StrEnum

from regard.evaluation.formatting import quantity
from regard.evaluation.statistics.estimate import Estimate
from regard.evaluation.statistics.item_groups import MIN_GROUPS

MIN_ITEMS = 20
"Minimum items for a verdict: a bootstrap over fewer gives too narrow an interval."


class BaselineVerdict(StrEnum):
    """Completed by the baseline's name: `better than` the unigram baseline."""

    BETTER = "better than"
    BEHIND = "behind"
    NOT_DISTINGUISHABLE = "not distinguishable from"
    TOO_FEW = "on too few items to compare with"
    TUNED = "tuned on these rows, and not judged against"


def too_few_items(n: int, items: str, *, groups: int | None) -> str:
    """Why there is no verdict over these items; empty where there are enough."""
    for count, unit, minimum in ((n, items, MIN_ITEMS), (groups, "groups", MIN_GROUPS)):
        if count is not None and count < minimum:
            verb = "is" if count == 1 else "are"
            return f"{quantity(count, unit)} {verb} too few for a verdict; it takes {minimum}"
    return ""


def difference_verdict(difference: Estimate, *, higher_is_better: bool) -> BaselineVerdict:
    """What a difference says of our score; no verdict without an interval or on few items."""
    if too_few_items(difference.n, difference.items, groups=difference.groups):
        return BaselineVerdict.TOO_FEW
    if difference.low is None or difference.high is None or difference.low <= 0 <= difference.high:
        return BaselineVerdict.NOT_DISTINGUISHABLE
    is_better = (difference.low > 0) == higher_is_better
    return BaselineVerdict.BETTER if is_better else BaselineVerdict.BEHIND
