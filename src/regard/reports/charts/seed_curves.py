"""One curve for several seeds: mean, minimum and maximum at each point.

Seeds are interpolated at the same points, up to the end of the shortest curve: beyond it the mean
would be over fewer seeds and would jump. Shapes: s seeds, x points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.reports.charts.run_charts import subsample, window_means
from regard.runs.archive.record import RunRecord
from regard.training.events import StepEvent

MAX_POINTS = 80

Curve = Sequence[tuple[float, float]]
"(x, y), x increasing."
StepToX = Callable[[StepEvent], float | None]
"The x value of a step: its number, tokens or seconds."


@dataclass(frozen=True)
class CurvePoint:
    """The seeds at one x."""

    x: float
    mean: float
    low: float
    high: float


def aggregate_seeds(curves: Sequence[Curve], max_points: int = MAX_POINTS) -> list[CurvePoint]:
    """The seeds at their shared points, or else at up to `max_points` evenly spaced points."""
    finite = [[point for point in curve if all(map(math.isfinite, point))] for curve in curves]
    arrays = [np.array(curve, dtype=np.float64).T for curve in finite if curve]
    if not arrays:
        return []
    begin, end = max(xs[0] for xs, _ in arrays), min(xs[-1] for xs, _ in arrays)
    if end < begin:
        return []
    grid = arrays[0][0]
    if len(grid) > max_points or any(not np.array_equal(xs, grid) for xs, _ in arrays):
        longest = max(len(xs) for xs, _ in arrays)
        grid = np.linspace(begin, end, min(max_points, longest) if end > begin else 1)
    values = np.stack([np.interp(grid, xs, ys) for xs, ys in arrays])  # (s, x)
    columns = zip(values.mean(axis=0), values.min(axis=0), values.max(axis=0), strict=True)
    return [
        CurvePoint(float(x), float(mean), float(low), float(high))
        for x, (mean, low, high) in zip(grid, columns, strict=True)
    ]


def training_curve(record: RunRecord, x_of: StepToX) -> Curve:
    """The logged training loss; each point is the mean since the previous point."""
    steps = window_means(record.events.steps, MAX_POINTS)
    return [(x, step.loss) for step in steps if (x := x_of(step)) is not None]


def dev_curve(record: RunRecord, x_of: StepToX) -> Curve:
    """The dev loss at each evaluation; x is interpolated between the logged steps."""
    points = [(step.step, x) for step in record.events.steps if (x := x_of(step)) is not None]
    if not points:
        return []
    numbers, xs = zip(*points, strict=True)
    return [
        (float(np.interp(event.step, numbers, xs)), event.loss)
        for event in subsample(record.events.evaluations, MAX_POINTS)
        if event.step <= numbers[-1]
    ]
