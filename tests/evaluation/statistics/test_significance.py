import json
import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.calibration.simulation import (
    Simulation,
    detection_rate,
    familywise_detection_rate,
)
from benchmarks.calibration.standard_errors import bootstrap_se
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from regard.core.errors import UserError
from regard.evaluation.statistics.holm import holm
from regard.evaluation.statistics.intervals import Bootstrap
from regard.evaluation.statistics.seed_tables import SeedTables, perplexity, ratio
from regard.evaluation.statistics.significance import MethodDifference, method_difference

SEED = st.integers(0, 2**32 - 1)


def study(seed=0, *, seeds=5, n=60, planted=0.0):
    """Two methods, the second worse by `planted` nats per token."""
    simulation = Simulation(seeds=seeds, n=n, method_seed_std=0.01)
    return simulation.study(np.random.default_rng(seed), planted=planted)


def seed_tables(values, *, variant="a", split="dev:1"):
    """Tables of (s, n) values, whose `ratio` is the mean."""
    values = np.asarray(values, dtype=float)
    statistics = np.stack([values, np.ones_like(values)], axis=1)
    return SeedTables(
        variant=variant,
        seeds=tuple(range(len(values))),
        statistics=statistics,
        splits=(split,) * len(values),
    )


def make_difference(value=-1.9, *, per_seed=(-1.0, -2.8), n=904, **errors):
    errors = {"se_seeds": 1.4, "se_items": 0.5, "se_persistent": 0.3} | errors
    return MethodDifference(a="additive", b="dot", value=value, per_seed=per_seed, n=n, **errors)


class TestDifference:
    def test_by_hand(self):
        # Seed differences 1, 2, 3 of means; item differences over seeds 1, 2, 3: sd 1 each.
        a = seed_tables([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])
        b = seed_tables(np.zeros((3, 3)), variant="b")
        found = method_difference(a, b, ratio)
        assert found.value == pytest.approx(2)
        assert found.per_seed == pytest.approx((1, 2, 3))
        assert found.se_seeds == pytest.approx(1 / math.sqrt(3))
        assert found.se_items == pytest.approx(1 / math.sqrt(3))
        half = stats.t.ppf(0.975, 2) * math.sqrt(2 / 3)
        assert (found.low, found.high) == (pytest.approx(2 - half), pytest.approx(2 + half))
        assert found.p == pytest.approx(2 * stats.t.sf(2 / math.sqrt(2 / 3), 2))

    def test_without_item_variance_it_is_the_paired_t_test(self):
        generator = np.random.default_rng(4)
        per_seed = generator.normal(size=(2, 6, 1)) + np.zeros((2, 6, 40))
        found = method_difference(*map(seed_tables, per_seed), ratio)
        expected = stats.ttest_rel(per_seed[0, :, 0], per_seed[1, :, 0])
        interval = expected.confidence_interval(0.95)
        assert found.p == pytest.approx(expected.pvalue)
        assert (found.low, found.high) == (
            pytest.approx(interval.low),
            pytest.approx(interval.high),
        )

    def test_one_seed_gives_an_interval_over_items(self):
        a, b = study(seeds=1, n=400)
        found = method_difference(a, b, perplexity)
        assert found.scope == "these trained models, not the methods"
        assert (found.se_seeds, found.limiting_factor, found.seeds_needed(1)) == (
            None,
            "seeds",
            None,
        )
        statistics = np.stack([a.statistics[0, 0], b.statistics[0, 0], a.statistics[0, 1]])
        [(low, high)] = Bootstrap().intervals(
            statistics,
            lambda c: (np.exp(c[0].sum(-1) / c[2].sum(-1)) - np.exp(c[1].sum(-1) / c[2].sum(-1)))[
                None
            ],
        )
        assert found.low == pytest.approx(low, abs=0.1 * (high - low))
        assert found.high == pytest.approx(high, abs=0.1 * (high - low))

    def test_jackknife_agrees_with_the_bootstrap(self):
        a, b = study(seeds=3, n=500)
        samples = bootstrap_se(a, b, resamples=4000, generator=np.random.default_rng(0))
        assert method_difference(a, b, perplexity).se_items == pytest.approx(samples, rel=0.05)

    def test_persistent_item_variance_is_separated(self):
        generator = np.random.default_rng(2)
        persistent, per_seed_noise = generator.normal(size=3000), generator.normal(size=(8, 3000))
        none = seed_tables(np.zeros((8, 3000)), variant="b")
        for items, expected in (
            (persistent + 0 * per_seed_noise, 1),
            (per_seed_noise, 0),
            (persistent + per_seed_noise, 1),
        ):
            found = method_difference(seed_tables(items), none, ratio)
            assert found.se_persistent * math.sqrt(3000) == pytest.approx(expected, abs=0.25)

    def test_equal_methods_are_not_distinguishable(self):
        a, _ = study()
        found = method_difference(a, replace(a, variant="b"), perplexity)
        assert (found.value, found.se, found.p) == (0, 0, 1)
        assert not found.distinguishable
        assert (found.min_detectable, found.units_needed(1), found.seeds_needed(1)) == (0, 2, 2)

    def test_two_seeds_suffice(self):
        found = method_difference(*study(seeds=2, n=3000, planted=3.0), ratio)
        assert found.distinguishable
        assert found.high < 0

    def test_one_item_is_never_significant(self):
        found = method_difference(*study(n=1, planted=3.0), perplexity)
        assert (found.p, found.seeds_needed(1), found.units_needed(1)) == (1, None, None)
        assert not found.distinguishable
        assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["low"] is None

    def test_few_items_are_never_distinguishable(self):
        few, enough = (study(n=n, planted=1.0) for n in (19, 20))
        assert not method_difference(*few, ratio).distinguishable
        assert method_difference(*enough, ratio).distinguishable


class TestAlgebra:
    @settings(max_examples=40, deadline=None)
    @given(SEED, st.integers(1, 5), st.integers(2, 40))
    def test_swapping_methods_flips_the_sign(self, seed, seeds, n):
        a, b = study(seed, seeds=seeds, n=n)
        one, other = (method_difference(*pair, perplexity) for pair in ((a, b), (b, a)))
        assert (one.value, one.low, one.high) == (-other.value, -other.high, -other.low)
        assert (one.p, one.se, one.limiting_factor) == (other.p, other.se, other.limiting_factor)

    @settings(max_examples=40, deadline=None)
    @given(SEED, st.integers(1, 5), st.integers(2, 40))
    def test_order_of_items_and_seeds_does_not_matter(self, seed, seeds, n):
        pair = study(seed, seeds=seeds, n=n)
        generator = np.random.default_rng(seed)
        items, order = generator.permutation(n), generator.permutation(seeds)
        shuffled = [
            replace(method, statistics=method.statistics[:, :, items]).select(order)
            for method in pair
        ]
        one, other = (method_difference(*tables, perplexity) for tables in (pair, shuffled))
        for name in ("value", "low", "high", "p", "se_items"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-6, abs=1e-9)

    @settings(max_examples=40, deadline=None)
    @given(SEED, st.floats(1e-3, 1e3), st.integers(1, 5))
    def test_units_scale_the_difference_and_keep_p(self, seed, factor, seeds):
        pair = study(seed, seeds=seeds)
        units = np.array([[factor], [1.0]])
        scaled = [replace(method, statistics=method.statistics * units) for method in pair]
        one, other = (method_difference(*tables, ratio) for tables in (pair, scaled))
        assert other.p == pytest.approx(one.p, rel=1e-6)
        for name in ("value", "low", "high", "min_detectable"):
            assert getattr(other, name) == pytest.approx(factor * getattr(one, name), rel=1e-6)

    @given(st.floats(-9, 9), st.floats(0.01, 9), st.integers(1, 9), st.floats(0.5, 0.999))
    def test_interval_excludes_zero_iff_p_is_small(self, value, se, seeds, level):
        found = make_difference(value, per_seed=(value,) * seeds, se_items=se, level=level)
        assert found.distinguishable == (found.p < 1 - level)


class TestPlanning:
    @pytest.mark.parametrize("seeds", [2, 3, 5, 10])
    def test_minimum_detectable_difference_has_80_percent_power(self, seeds):
        generator = np.random.default_rng(seeds)
        truth = make_difference(per_seed=(0.0,) * seeds, se_seeds=1.0, se_items=0.0).min_detectable
        samples = truth + math.sqrt(seeds) * generator.normal(size=(20_000, seeds))
        found = stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05
        assert found.mean() == pytest.approx(0.8, abs=0.012)

    @settings(max_examples=40, deadline=None)
    @given(st.integers(2, 12), st.floats(0.1, 5), st.floats(0, 0.5), st.floats(0.5, 20))
    def test_seeds_needed_is_minimal(self, seeds, spread, persistent, difference):
        def with_seeds(count):
            return make_difference(
                per_seed=(0.0,) * count,
                se_seeds=spread / math.sqrt(count),
                se_items=persistent,
                se_persistent=persistent,
            )

        needed = with_seeds(seeds).seeds_needed(difference)
        if needed is None:
            assert with_seeds(2**20).min_detectable > difference
            return
        assert with_seeds(needed).min_detectable <= difference * (1 + 1e-9)
        assert needed == 2 or with_seeds(needed - 1).min_detectable > difference

    def test_persistent_item_variance_can_rule_out_detection(self):
        assert make_difference(se_persistent=0.5).seeds_needed(1.3) is None
        assert make_difference(se_persistent=0.5).seeds_needed(1.5) > 2

    def test_units_needed(self):
        found = make_difference(se_seeds=0.1, se_items=1.0, n=100)
        needed = found.units_needed(10.0)
        enough = replace(found, n=needed, se_items=math.sqrt(100 / needed))
        assert enough.min_detectable == pytest.approx(10.0, rel=0.01)
        assert found.units_needed(1.0) is None

    def test_limiting_factor_has_the_larger_standard_error(self):
        assert make_difference(se_seeds=2.0, se_items=1.0).limiting_factor == "seeds"
        assert make_difference(se_seeds=1.0, se_items=2.0).limiting_factor == "items"


class TestHolm:
    def test_by_hand(self):
        # p = 0.01, 0.02, 0.04 of three: 0.03, 0.04, 0.04; all rejected, at α/3, α/2, α.
        differences = [
            make_difference(value, per_seed=(value,) * 9, se_seeds=0.0)
            for value in _with_p(0.04, 0.01, 0.02)
        ]
        found = holm(differences)
        assert [d.p_adjusted for d in found] == pytest.approx([0.04, 0.03, 0.04])
        assert [d.level for d in found] == pytest.approx([0.95, 1 - 0.05 / 3, 0.975])
        assert all(d.distinguishable and d.comparisons == 3 for d in found)

    def test_nothing_is_rejected_after_the_first_acceptance(self):
        # 0.03 is above 0.05 / 2, so 0.04 is not rejected either, though it is below 0.05.
        differences = [
            make_difference(value, per_seed=(value,) * 9, se_seeds=0.0)
            for value in _with_p(0.001, 0.03, 0.04)
        ]
        found = holm(differences)
        assert [d.distinguishable for d in found] == [True, False, False]
        assert [d.level for d in found] == pytest.approx([1 - 0.05 / 3, 0.975, 0.975])

    @given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
    def test_corrected_interval_excludes_zero_iff_adjusted_p_is_small(self, values):
        found = holm(
            [make_difference(value, per_seed=(value,) * 6, se_seeds=0.3) for value in values]
        )
        for d in found:
            assert d.distinguishable == (d.p_adjusted < 0.05)
            assert d.p_adjusted >= d.p

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.integers(-5, 5), min_size=2, max_size=6), st.randoms())
    def test_order_of_the_variants_does_not_matter(self, values, random):
        differences = [make_difference(float(value), per_seed=(0.0,) * 6) for value in values]
        order = random.sample(range(len(values)), len(values))
        found, shuffled = holm(differences), holm([differences[index] for index in order])
        assert shuffled == [found[index] for index in order]

    def test_no_and_one_difference(self):
        assert holm([]) == []
        [one] = holm([make_difference()])
        assert (one.level, one.p_adjusted) == (pytest.approx(0.95), make_difference().p)

    def test_correcting_twice_raises(self):
        with pytest.raises(ValueError, match="before"):
            holm(holm([make_difference(), make_difference()]))


def _with_p(*p_values):
    """Differences with these p, for nine seeds and a standard error of one half."""
    return [0.5 * stats.t.isf(p / 2, 8) for p in p_values]


class TestRefusals:
    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_non_finite_statistic_raises_with_item(self, bad):
        values = np.ones((3, 30))
        values[1, 4] = bad
        with pytest.raises(UserError, match=r"additive: seed 1: document 5 .* finite"):
            seed_tables(values, variant="additive")

    def test_overflowing_score_raises_with_seed(self):
        a, b = seed_tables(np.ones((2, 30))), seed_tables(np.full((2, 30), 900.0), variant="b")
        with pytest.raises(UserError, match="b: seed 0: the compared score"):
            method_difference(a, b, perplexity)

    def test_overflowing_squares_are_not_distinguishable(self):
        generator = np.random.default_rng(0)
        a, b = (seed_tables(600 + generator.normal(size=(3, 30))) for _ in range(2))
        assert not method_difference(a, b, perplexity).distinguishable

    def test_different_items_raise(self):
        a, b = (
            seed_tables(np.ones((2, 30))),
            seed_tables(np.ones((2, 30)), variant="b", split="dev:2"),
        )
        with pytest.raises(UserError, match=r"dev:1 .* dev:2 .* different items"):
            method_difference(a, b, ratio)
        with pytest.raises(UserError, match=r"30 documents.*31 documents"):
            method_difference(a, seed_tables(np.ones((2, 31))), ratio)

    def test_seeds_evaluated_on_different_items_raise(self):
        with pytest.raises(UserError, match=r"seed 0 .* dev:1, .* dev:2"):
            replace(seed_tables(np.ones((2, 30))), splits=("dev:1", "dev:2"))

    def test_different_seeds_raise_and_select_fixes_it(self):
        a, b = (seed_tables(np.eye(30)[:s], variant=name) for name, s in (("a", 3), ("b", 2)))
        with pytest.raises(UserError, match=r"seeds that both have: 0, 1\."):
            method_difference(a, b, ratio)
        assert method_difference(a.select([0, 1]), b, ratio).value == 0

    def test_duplicate_seed_raises(self):
        with pytest.raises(UserError, match="twice in 4, 4"):
            replace(seed_tables(np.ones((2, 30))), seeds=(4, 4))

    def test_invalid_level_raises(self):
        with pytest.raises(UserError, match=r"Give 0\.95"):
            method_difference(*study(), ratio, level=95)


class TestCalibration:
    """Over 1,000 studies of equal methods, at most 6 % find a difference."""

    @pytest.mark.parametrize("seeds", [pytest.param(2, marks=pytest.mark.long), 3, 5])
    @pytest.mark.parametrize(("balance", "n"), [(0.1, 50), (1.0, 300), (10.0, 50), (100.0, 50)])
    def test_false_positive_rate(self, balance, n, seeds):
        simulation = Simulation.balanced(balance, seeds=seeds, n=n)
        assert detection_rate(simulation.studies(1000)) <= 0.06

    @pytest.mark.long
    def test_false_positive_rate_on_many_items(self):
        simulation = Simulation.balanced(10.0, seeds=3, n=2000)
        assert detection_rate(simulation.studies(1000)) <= 0.06

    @pytest.mark.parametrize("seeds", [pytest.param(2, marks=pytest.mark.long), 3, 5])
    def test_false_positive_rate_where_only_seeds_vary(self, seeds):
        # In nats, where the rate is nearest to 5 %; its standard deviation is 0.5 %.
        simulation = Simulation.balanced(1000.0, seeds=seeds, n=20)
        assert 0.035 <= detection_rate(simulation.studies(2000), ratio) <= 0.06

    def test_family_wise_error_rate(self):
        simulation = Simulation.balanced(100.0, seeds=5, n=50)
        assert familywise_detection_rate(simulation, 1000, methods=4, correct=holm) <= 0.06
        assert familywise_detection_rate(simulation, 300, methods=4, correct=list) > 0.08

    def test_planted_difference_is_found(self):
        simulation = Simulation(seeds=5, n=1000, method_seed_std=0.01)
        assert detection_rate(simulation.studies(100, planted=0.1)) >= 0.95
