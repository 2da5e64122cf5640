"""Several seeds as one curve with a band."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from regard.reports.charts.seed_curves import over_seeds

points = st.lists(st.floats(-50, 50), min_size=1, max_size=30)


@given(st.lists(points, min_size=1, max_size=5), st.integers(2, 40))
def test_a_band_holds_its_mean_and_stays_within_what_was_seen(seeds, most):
    curves = [[(float(x), y) for x, y in enumerate(curve)] for curve in seeds]
    places = over_seeds(curves, most)
    assert 1 <= len(places) <= most
    lowest, highest = min(map(min, seeds)), max(map(max, seeds))
    for place in places:
        assert lowest - 1e-9 <= place.low <= place.mean + 1e-9
        assert place.mean - 1e-9 <= place.high <= highest + 1e-9
        assert 0 <= place.x <= min(map(len, seeds)) - 1


def test_seeds_at_the_same_places_are_read_off_exactly():
    curves = [[(1, 4.0), (2, 3.0)], [(1, 6.0), (2, 5.0)]]
    assert [(p.x, p.low, p.mean, p.high) for p in over_seeds(curves)] == [
        (1, 4.0, 5.0, 6.0),
        (2, 3.0, 4.0, 5.0),
    ]
    assert over_seeds([[(1, math.nan)], []]) == []
