"""Which evaluated items of a split stand in training; scores are over the others.

From 1 % of the evaluated items on, scores, differences and verdicts leave overlapping items out.
Below that nothing is left out: a score would barely change, and items are worth more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.data.statistics import SplitOverlap
from regard.runs.results import ContaminationRecord, ScoreRecord

Item = TypeVar("Item")


@dataclass(frozen=True)
class ItemOverlap:
    """The overlap of the evaluated items of one split, in their order."""

    kinds: Sequence[str | None]
    "`exact`, `near`, or None for an item that does not stand in training."
    same_label: Sequence[bool] = field(default=())
    "Of each overlapping item, whether its label is the one in training; empty without labels."

    @property
    def counts(self) -> SplitOverlap:
        return SplitOverlap(
            items=len(self.kinds),
            exact=sum(kind == "exact" for kind in self.kinds),
            near=sum(kind == "near" for kind in self.kinds),
            agree=sum(self.same_label) if self.same_label else None,
            flipped=len(self.same_label) - sum(self.same_label) if self.same_label else None,
        )

    @property
    def is_contaminated(self) -> bool:
        return self.counts.is_contaminated

    @property
    def is_scored(self) -> NDArray[np.bool_]:
        """By item, whether scores count it."""
        contaminated = self.is_contaminated
        return np.array([kind is None or not contaminated for kind in self.kinds], dtype=bool)

    def scored(self, items: Sequence[Item]) -> list[Item]:
        """Those of the items that scores count."""
        return [item for item, is_scored in zip(items, self.is_scored, strict=True) if is_scored]

    def label(self, split_label: str) -> str:
        """`test:3f9c21aa:57-clean`, for signatures; unchanged where all items are scored."""
        if not self.is_contaminated:
            return split_label
        return f"{split_label}:{int(self.is_scored.sum())}-clean"

    def record(
        self, split: str, *, unit: str, estimates: Sequence[ScoreRecord]
    ) -> ContaminationRecord:
        """For results.json; `estimates` are over all items."""
        counts = self.counts
        return ContaminationRecord(
            split=split,
            unit=unit,
            n=counts.items,
            overlapping=counts.overlapping,
            exact=counts.exact,
            agree=counts.agree,
            flipped=counts.flipped,
            estimates=tuple(estimates),
        )
