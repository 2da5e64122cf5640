"""Several seeds aggregated into one curve with a band."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from regard.reports.charts.seed_curves import aggregate_seeds

points = st.lists(st.floats(-50, 50), min_size=1, max_size=30)


@given(st.lists(points, min_size=1, max_size=5), st.integers(2, 40))
def test_band_contains_the_mean_and_stays_within_the_data(seeds, max_points):
    curves = [[(float(x), y) for x, y in enumerate(curve)] for curve in seeds]
    aggregated = aggregate_seeds(curves, max_points)
    assert 1 <= len(aggregated) <= max_points
    lowest, highest = min(map(min, seeds)), max(map(max, seeds))
    for point in aggregated:
        assert lowest - 1e-9 <= point.low <= point.mean + 1e-9
        assert point.mean - 1e-9 <= point.high <= highest + 1e-9
        assert 0 <= point.x <= min(map(len, seeds)) - 1


def test_shared_points_are_not_interpolated():
    curves = [[(1, 4.0), (2, 3.0)], [(1, 6.0), (2, 5.0)]]
    assert [(p.x, p.low, p.mean, p.high) for p in aggregate_seeds(curves)] == [
        (1, 4.0, 5.0, 6.0),
        (2, 3.0, 4.0, 5.0),
    ]
    assert aggregate_seeds([[(1, math.nan)], []]) == []
