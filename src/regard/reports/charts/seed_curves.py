"""One curve for several seeds: their mean at each place, and the least and the most around it.

Seeds are read off at the same places, as far as every one of them goes: past the end of the first
the mean would be over fewer, and would jump. Shapes: s seeds, x places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.reports.charts.run_charts import thinned, window_means
from regard.runs.archive.record import RunRecord, StepEvent

MOST_PLACES = 80

Curve = Sequence[tuple[float, float]]
"(x, y), x rising."
Across = Callable[[StepEvent], float | None]
"Where a step lies: its number, its tokens, its seconds."


@dataclass(frozen=True)
class CurvePoint:
    """The seeds at one x."""

    x: float
    mean: float
    low: float
    high: float


def over_seeds(curves: Sequence[Curve], most: int = MOST_PLACES) -> list[CurvePoint]:
    """The seeds together, at the places they share or at `most` places that lie evenly."""
    finite = [[point for point in curve if all(map(math.isfinite, point))] for curve in curves]
    drawn = [np.array(curve, dtype=np.float64).T for curve in finite if curve]
    if not drawn:
        return []
    begin, end = max(xs[0] for xs, _ in drawn), min(xs[-1] for xs, _ in drawn)
    if end < begin:
        return []
    places = drawn[0][0]
    if len(places) > most or any(not np.array_equal(xs, places) for xs, _ in drawn):
        longest = max(len(xs) for xs, _ in drawn)
        places = np.linspace(begin, end, min(most, longest) if end > begin else 1)
    values = np.stack([np.interp(places, xs, ys) for xs, ys in drawn])  # (s, x)
    columns = zip(values.mean(axis=0), values.min(axis=0), values.max(axis=0), strict=True)
    return [
        CurvePoint(float(x), float(mean), float(low), float(high))
        for x, (mean, low, high) in zip(places, columns, strict=True)
    ]


def training_curve(record: RunRecord, across: Across) -> Curve:
    """The loss that training told, each point a mean since the point before."""
    steps = window_means(record.events.steps, MOST_PLACES)
    return [(x, step.loss) for step in steps if (x := across(step)) is not None]


def dev_curve(record: RunRecord, across: Across) -> Curve:
    """The dev loss at each evaluation; where it lies follows from the steps around it."""
    known = [(step.step, x) for step in record.events.steps if (x := across(step)) is not None]
    if not known:
        return []
    numbers, xs = zip(*known, strict=True)
    return [
        (float(np.interp(event.step, numbers, xs)), event.loss)
        for event in thinned(record.events.evaluations, MOST_PLACES)
        if event.step <= numbers[-1]
    ]
