"""What the difference between a model and a baseline says of the model."""

from __future__ import annotations

from enum import StrEnum


class BaselineVerdict(StrEnum):
    """Completed by the baseline's name: `better than` the unigram baseline."""

    BETTER = "better than"
    BEHIND = "behind"
    NOT_DISTINGUISHABLE = "not distinguishable from"
    TOO_FEW = "on too few items to compare with"
    TUNED = "tuned on these rows, and not judged against"
