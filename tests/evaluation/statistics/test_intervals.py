import numpy as np
import pytest
from scipy import stats

from regard.core.errors import UserError
from regard.evaluation.statistics import intervals
from regard.evaluation.statistics.intervals import Bootstrap, wilson


def ratio(statistics):
    top, bottom = statistics.sum(axis=-1)
    return (top / bottom)[None]


def mean(statistics):
    return statistics.mean(axis=-1)


@pytest.fixture
def statistics():
    generator = np.random.default_rng(3)
    bottom = generator.integers(1, 40, 150).astype(float)
    return np.stack([bottom * generator.gamma(4, size=150), bottom])


def test_one_item_has_no_interval():
    assert Bootstrap().intervals(np.array([[2.0], [3.0]]), ratio) == [None]


def test_the_seed_decides(statistics):
    first, again, other = (Bootstrap(seed=s).intervals(statistics, ratio) for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_the_interval_does_not_depend_on_how_many_draws_are_held_at_once(statistics, monkeypatch):
    whole = Bootstrap(resamples=300).intervals(statistics, ratio)
    monkeypatch.setattr(intervals, "VALUES_IN_MEMORY", 7 * statistics.size)
    assert Bootstrap(resamples=300).intervals(statistics, ratio) == whole


def test_memory_stays_bounded_when_items_are_many(monkeypatch):
    held = []

    def watched_mean(statistics):
        held.append(statistics.size)
        return mean(statistics)

    monkeypatch.setattr(intervals, "VALUES_IN_MEMORY", 10_000)
    Bootstrap(resamples=100).intervals(np.ones((1, 999)), watched_mean)
    assert max(held) <= 10_000


def test_a_paired_ratio_agrees_with_scipy(statistics):
    [(low, high)] = Bootstrap(resamples=4000).intervals(statistics, ratio)
    theirs = stats.bootstrap(
        tuple(statistics),
        lambda top, bottom, axis: top.sum(axis=axis) / bottom.sum(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=4000,
        rng=np.random.default_rng(8),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert low == pytest.approx(theirs.low, abs=0.05 * width)
    assert high == pytest.approx(theirs.high, abs=0.05 * width)


def test_columns_are_drawn_together():
    column = np.random.default_rng(0).normal(size=50)
    difference = Bootstrap().intervals(
        np.stack([column, column + 2]), lambda c: (c[1].mean(-1) - c[0].mean(-1))[None]
    )
    assert difference == [(pytest.approx(2), pytest.approx(2))]


def test_a_95_percent_interval_covers_the_truth_about_that_often():
    generator = np.random.default_rng(11)
    rounds = 200
    covered = 0
    for seed in range(rounds):
        sample = generator.exponential(size=(1, 80))
        [(low, high)] = Bootstrap(resamples=400, seed=seed).intervals(sample, mean)
        covered += low <= 1 <= high
    # Nominal 190 of 200; skewed data at this size gives a little less. 4 standard deviations.
    assert 0.88 <= covered / rounds <= 0.99


@pytest.mark.parametrize("values", [{"confidence": 1.0}, {"confidence": 0}, {"resamples": 10}])
def test_settings_that_cannot_give_an_interval_are_refused(values):
    with pytest.raises(UserError, match="interval"):
        Bootstrap(**values)


def test_the_signature_says_all_that_decides_the_outcome():
    assert str(Bootstrap()) == "bootstrap-percentile-95%-2000-seed0"
    assert str(Bootstrap(resamples=10_000, confidence=0.999, seed=4)) == (
        "bootstrap-percentile-99.9%-10000-seed4"
    )


def test_wilson_by_hand():
    # 0 of 10: the upper end is z² / (n + z²); 5 of 10 is symmetric about one half.
    z2 = stats.norm.ppf(0.975) ** 2
    assert wilson(0, 10) == (pytest.approx(0, abs=1e-12), pytest.approx(z2 / (10 + z2)))
    low, high = wilson(5, 10)
    assert low + high == pytest.approx(1)


def test_the_same_share_of_more_items_is_known_better():
    few, many = wilson(9, 10), wilson(900, 1000)
    assert few[1] - few[0] > 5 * (many[1] - many[0])


@pytest.mark.parametrize(("successes", "n"), [(3, 2), (-1, 2), (0, 0)])
def test_wilson_refuses_what_is_no_share(successes, n):
    with pytest.raises(UserError, match="no share"):
        wilson(successes, n)
