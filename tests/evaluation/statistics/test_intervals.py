import numpy as np
import pytest
from benchmarks.calibration.group_intervals import mean_coverage, proportion_coverage
from benchmarks.calibration.groups import GroupedSimulation
from scipy import stats

from regard.core.errors import UserError
from regard.evaluation.statistics import intervals
from regard.evaluation.statistics.intervals import Bootstrap, at_least_t, wilson, wilson_by_group
from regard.evaluation.statistics.item_groups import sum_by_group


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


class TestGroups:
    def test_wilson_of_items_that_stand_alone(self):
        is_success = np.arange(30) < 21
        assert wilson_by_group(is_success, None) == wilson(21, 30)

    def test_wilson_of_groups_that_are_right_or_wrong_as_a_whole(self):
        """Five items a group say as much as one: the interval is that of the groups, by t."""
        groups = np.repeat(np.arange(40), 5)
        low, high = wilson_by_group(groups < 20, groups)
        expected_low, expected_high = wilson(20, 40)
        assert (low, high) == (
            pytest.approx(expected_low, abs=0.01),
            pytest.approx(expected_high, abs=0.01),
        )

    def test_wilson_counts_no_more_items_than_there_are(self):
        """Items that differ within groups as much as possible are worth no more than their n."""
        groups = np.repeat(np.arange(30), 4)
        low, high = wilson_by_group(np.tile([True, False], 60), groups)
        assert high - low >= wilson(60, 120)[1] - wilson(60, 120)[0]

    def test_all_right_is_as_uncertain_as_its_groups(self):
        groups = np.repeat(np.arange(20), 50)
        low, high = wilson_by_group(np.ones(1000, dtype=bool), groups)
        assert (low, high) == (pytest.approx(wilson(20, 20)[0], abs=0.03), pytest.approx(1))

    def test_few_groups_have_no_bootstrap_interval(self):
        few, enough = np.random.default_rng(0).normal(size=(1, 9)), np.arange(10.0)[None]
        assert Bootstrap().intervals(few, mean, effective_groups=9.0) == [None]
        assert Bootstrap().intervals(enough, mean, effective_groups=10.0) != [None]

    @pytest.mark.parametrize("correlation", [0.2, 0.8])
    @pytest.mark.parametrize("accuracy", [0.7, 0.95])
    def test_intervals_over_groups_cover(self, correlation, accuracy):
        simulation = GroupedSimulation(seeds=1, size=20, correlation=correlation, accuracy=accuracy)
        lowest = 0.93 - 0.035  # two standard errors
        assert proportion_coverage(simulation, studies=200) >= lowest
        assert mean_coverage(simulation, studies=200) >= lowest
        assert proportion_coverage(simulation, studies=200, by_group=False) < 0.9

    def test_rare_differences_between_groups_are_not_judged_by_percentiles_alone(self):
        """Two equal methods, nearly right or wrong in whole groups, so that few groups differ."""
        simulation = GroupedSimulation(
            seeds=1, size=100, correlation=0.9, accuracy=0.95, is_right_or_wrong=True
        )
        generator, found = np.random.default_rng(1), np.zeros(2)
        for _ in range(300):
            groups = simulation.draw_groups(generator)
            a, b = (simulation.draw_scores(generator, groups)[0] for _ in range(2))
            table = sum_by_group(np.stack([a - b, np.ones_like(a)]), groups)
            [percentiles] = Bootstrap(resamples=300).intervals(table, ratio, effective_groups=20.0)
            others = table.sum(axis=1, keepdims=True) - table
            careful = at_least_t(
                percentiles,
                float((a - b).mean()),
                others[0] / others[1],
                effective_groups=20.0,
                confidence=0.95,
            )
            found += [not low <= 0 <= high for low, high in (percentiles, careful)]
        assert found[1] / 300 <= 0.06 < found[0] / 300


def test_wilson_narrows_with_n():
    few, many = wilson(9, 10), wilson(900, 1000)
    assert few[1] - few[0] > 5 * (many[1] - many[0])


@pytest.mark.parametrize(("successes", "n"), [(3, 2), (-1, 2), (0, 0)])
def test_wilson_of_impossible_counts_raises(successes, n):
    with pytest.raises(UserError, match="not a proportion"):
        wilson(successes, n)
