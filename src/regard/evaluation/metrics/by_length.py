"""Scores by length: the same metric for short and long items separately.

A model that squeezes a sentence into one vector degrades with length (Cho et al., 2014); one score
over all lengths does not show it. Each bin has its own n and interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.fields import numbers
from regard.evaluation.metrics.metric import Metric, Row
from regard.evaluation.metrics.scoring import score
from regard.evaluation.statistics.estimate import Estimate
from regard.evaluation.statistics.intervals import Bootstrap


@dataclass(frozen=True, kw_only=True)
class LengthBin:
    """Items of start ≤ length < stop; None where the bin is open."""

    start: float | None
    stop: float | None
    estimates: list[Estimate]

    def __str__(self) -> str:
        """`below 10`, `10 to 19`, `20 and more`, for integer lengths."""
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
    """Scores in bins of length; an edge is its bin's minimum, empty bins are omitted."""
    if list(edges) != sorted(set(edges)):
        raise UserError(
            f"edges {', '.join(map(str, edges))} do not increase",
            topic="evaluation",
            hint="Give each length once, the shortest first.",
        )
    bin_of_row = np.searchsorted(np.asarray(edges), numbers(rows, field), side="right")
    bins = []
    for number, (start, stop) in enumerate(pairwise([None, *edges, None])):
        in_bin = [row for row, its_bin in zip(rows, bin_of_row, strict=True) if its_bin == number]
        if not in_bin:
            continue
        limits = f"{field} {'' if start is None else start}–{'' if stop is None else stop}"
        estimates = score(metric, in_bin, split=f"{split}, {limits}", bootstrap=bootstrap)
        bins.append(LengthBin(start=start, stop=stop, estimates=estimates))
    return bins
