import numpy as np
import pytest
from scipy import stats

from regard.core.errors import UserError
from regard.evaluation.statistics import intervals
from regard.evaluation.statistics.intervals import Bootstrap, wilson


def ratio(table):
    top, bottom = table.sum(axis=-1)
    return (top / bottom)[None]


def mean(table):
    return table.mean(axis=-1)


@pytest.fixture
def table():
    generator = np.random.default_rng(3)
    bottom = generator.integers(1, 40, 150).astype(float)
    return np.stack([bottom * generator.gamma(4, size=150), bottom])


def test_one_item_has_no_interval():
    assert Bootstrap().intervals(np.array([[2.0], [3.0]]), ratio) == [None]


def test_intervals_depend_on_the_seed_only(table):
    first, again, other = (Bootstrap(seed=s).intervals(table, ratio) for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_intervals_do_not_depend_on_chunk_size(table, monkeypatch):
    whole = Bootstrap(resamples=300).intervals(table, ratio)
    monkeypatch.setattr(intervals, "VALUES_IN_MEMORY", 7 * table.size)
    assert Bootstrap(resamples=300).intervals(table, ratio) == whole


def test_resampled_values_in_memory_are_bounded(monkeypatch):
    sizes = []

    def recording_mean(table):
        sizes.append(table.size)
        return mean(table)

    monkeypatch.setattr(intervals, "VALUES_IN_MEMORY", 10_000)
    Bootstrap(resamples=100).intervals(np.ones((1, 999)), recording_mean)
    assert max(sizes) <= 10_000


def test_ratio_interval_agrees_with_scipy(table):
    [(low, high)] = Bootstrap(resamples=4000).intervals(table, ratio)
    expected = stats.bootstrap(
        tuple(table),
        lambda top, bottom, axis: top.sum(axis=axis) / bottom.sum(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=4000,
        rng=np.random.default_rng(8),
    ).confidence_interval
    width = expected.high - expected.low
    assert low == pytest.approx(expected.low, abs=0.05 * width)
    assert high == pytest.approx(expected.high, abs=0.05 * width)


def test_quantities_of_an_item_are_resampled_together():
    values = np.random.default_rng(0).normal(size=50)
    difference = Bootstrap().intervals(
        np.stack([values, values + 2]), lambda c: (c[1].mean(-1) - c[0].mean(-1))[None]
    )
    assert difference == [(pytest.approx(2), pytest.approx(2))]


def test_coverage_of_the_95_percent_interval():
    generator = np.random.default_rng(11)
    trials = 200
    covered = 0
    for seed in range(trials):
        sample = generator.exponential(size=(1, 80))
        [(low, high)] = Bootstrap(resamples=400, seed=seed).intervals(sample, mean)
        covered += low <= 1 <= high
    # Nominal 190 of 200; skewed data at this size gives a little less. 4 standard deviations.
    assert 0.88 <= covered / trials <= 0.99


@pytest.mark.parametrize("values", [{"confidence": 1.0}, {"confidence": 0}, {"resamples": 10}])
def test_invalid_settings_raise(values):
    with pytest.raises(UserError, match="interval"):
        Bootstrap(**values)


def test_str_has_all_settings():
    assert str(Bootstrap()) == "bootstrap-percentile-95%-2000-seed0"
    assert str(Bootstrap(resamples=10_000, confidence=0.999, seed=4)) == (
        "bootstrap-percentile-99.9%-10000-seed4"
    )


def test_wilson_by_hand():
    # 0 of 10: the upper bound is z² / (n + z²); 5 of 10 is symmetric about one half.
    z2 = stats.norm.ppf(0.975) ** 2
    assert wilson(0, 10) == (pytest.approx(0, abs=1e-12), pytest.approx(z2 / (10 + z2)))
    low, high = wilson(5, 10)
    assert low + high == pytest.approx(1)


def test_wilson_narrows_with_n():
    few, many = wilson(9, 10), wilson(900, 1000)
    assert few[1] - few[0] > 5 * (many[1] - many[0])


@pytest.mark.parametrize(("successes", "n"), [(3, 2), (-1, 2), (0, 0)])
def test_wilson_of_impossible_counts_raises(successes, n):
    with pytest.raises(UserError, match="not a proportion"):
        wilson(successes, n)
