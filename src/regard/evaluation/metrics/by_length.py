"""A measure by length: the same metrics, for short items and long ones apart.

A model that squeezes a sentence into one vector loses with length (Cho et al., 2014); one figure
over all lengths hides that. Each bin has its own n and interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.fields import numbers
from regard.evaluation.metrics.metric import Metric, Row, score
from regard.evaluation.statistics.estimate import Estimate
from regard.evaluation.statistics.intervals import Bootstrap


@dataclass(frozen=True, kw_only=True)
class LengthBin:
    """Items of shortest ≤ length < longer; None where the bin has no such end."""

    start: float | None
    stop: float | None
    estimates: list[Estimate]

    def __str__(self) -> str:
        """`below 10`, `10 to 19`, `20 and more`, for whole lengths."""
        if self.start is None:
            return "all" if self.stop is None else f"below {self.stop:g}"
        if self.stop is None:
            return f"{self.start:g} and more"
        return f"{self.start:g} to {self.stop - 1:g}"


def score_by_length(
    metric: Metric,
    rows: Sequence[Row],
    *,
    field: str,
    edges: Sequence[int],
    split: str,
    bootstrap: Bootstrap | None = None,
) -> list[LengthBin]:
    """Bins cut at the edges, an edge being the shortest length of its bin; empty ones left out."""
    if list(edges) != sorted(set(edges)):
        raise UserError(
            f"edges {', '.join(map(str, edges))} do not rise",
            topic="evaluation",
            hint="Give each length once, the shortest first.",
        )
    bins = np.searchsorted(np.asarray(edges), numbers(rows, field), side="right")
    found = []
    for place, (start, stop) in enumerate(pairwise([None, *edges, None])):
        own = [row for row, its in zip(rows, bins, strict=True) if its == place]
        if not own:
            continue
        at = f"{field} {'' if start is None else start}–{'' if stop is None else stop}"
        estimates = score(metric, own, split=f"{split}, {at}", bootstrap=bootstrap)
        found.append(LengthBin(start=start, stop=stop, estimates=estimates))
    return found
