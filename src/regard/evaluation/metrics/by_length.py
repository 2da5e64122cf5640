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

    shortest: float | None
    longer: float | None
    figures: list[Estimate]

    def __str__(self) -> str:
        """`below 10`, `10 to 19`, `20 and more`, for whole lengths."""
        if self.shortest is None:
            return "all" if self.longer is None else f"below {self.longer:g}"
        if self.longer is None:
            return f"{self.shortest:g} and more"
        return f"{self.shortest:g} to {self.longer - 1:g}"


def score_by_length(
    measure: Metric,
    rows: Sequence[Row],
    *,
    field: str,
    edges: Sequence[int],
    part: str,
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
    for place, (shortest, longer) in enumerate(pairwise([None, *edges, None])):
        own = [row for row, its in zip(rows, bins, strict=True) if its == place]
        if not own:
            continue
        at = f"{field} {'' if shortest is None else shortest}–{'' if longer is None else longer}"
        figures = score(measure, own, part=f"{part}, {at}", bootstrap=bootstrap)
        found.append(LengthBin(shortest=shortest, longer=longer, figures=figures))
    return found
