"""Skewed differences of seeds: found, and judged by the weaker of two tests."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.calibration.divergence import detection_rates
from benchmarks.calibration.skew import DISTRIBUTIONS, error_rates
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.wording import says

from regard.evaluation.statistics.holm import holm
from regard.evaluation.statistics.sign_flips import sign_flip_p, smallest_p
from regard.evaluation.statistics.significance import MethodDifference
from regard.evaluation.statistics.skew import is_strongly_skewed, skewness
from regard.evaluation.statistics.verdict import verdict

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=10)


def difference_of(*per_seed):
    """A difference whose variance is that of its seeds alone."""
    values = np.array(per_seed, dtype=float)
    return MethodDifference(
        a="additive",
        b="dot",
        value=float(values.mean()),
        per_seed=tuple(values.tolist()),
        se_seeds=float(values.std(ddof=1) / np.sqrt(len(values))),
        se_items=0.0,
        se_persistent=0.0,
        n=900,
    )


class TestSkewness:
    @given(VALUES)
    def test_equals_scipys(self, values):
        if np.std(values) > 1e-6 * np.abs(values).max() + 1e-9:
            assert skewness(values) == pytest.approx(stats.skew(values), abs=1e-6)

    def test_an_outlier_is_strong_skew_and_normal_samples_seldom_are(self):
        assert is_strongly_skewed([1.0, 1.1, 0.9, 1.05, 9.0])
        assert is_strongly_skewed([-1.0, -1.1, -0.9, -1.05, -9.0])
        assert not is_strongly_skewed([1.0, 2.0, 3.0, 4.0, 5.0])
        generator = np.random.default_rng(1)
        for seeds in (3, 5, 8, 20):
            flagged = [is_strongly_skewed(x) for x in generator.standard_normal((2000, seeds))]
            assert np.mean(flagged) < 0.03, seeds

    @pytest.mark.parametrize("values", [[1.0], [1.0, 9.0], [0.1 + 0.2, 0.3, 0.3], [0.0] * 5])
    def test_too_few_or_equal_differences_have_none(self, values):
        assert not is_strongly_skewed(values)

    def test_huge_differences_do_not_overflow(self):
        assert is_strongly_skewed([1e300, 1e300, 1.1e300, 1e300, 9e300])


class TestSignFlips:
    # Sums of values of very different size are equal in one order and not in another.
    @given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=10))
    def test_equals_scipys_exact_permutation_test(self, values):
        found = stats.permutation_test(
            (values,),
            lambda x, axis: np.abs(np.sum(x, axis=axis)),
            permutation_type="samples",
            alternative="greater",
            n_resamples=np.inf,
            vectorized=True,
        )
        assert sign_flip_p(values) == pytest.approx(found.pvalue, abs=2 / 2 ** len(values) + 1e-9)

    def test_smallest_p_is_that_of_one_sign(self):
        for seeds in range(1, 12):
            values = np.arange(1, seeds + 1)
            assert sign_flip_p(values) == sign_flip_p(-values) == smallest_p(seeds)
        assert smallest_p(6) < 0.05 < smallest_p(5)

    def test_random_flips_agree_with_all_of_them(self):
        values = np.random.default_rng(3).normal(0.5, 1, 16)
        codes = np.arange(2**15)[:, None]
        signs = 1 - 2 * ((codes >> np.arange(16)) & 1)
        exact = (np.abs(signs @ values) >= abs(values.sum()) - 1e-9).mean()
        assert sign_flip_p(values) == pytest.approx(exact, abs=0.012)
        assert sign_flip_p(values[::-1]) == sign_flip_p(values)


class TestCalibration:
    """At most 6 % of studies of equal methods find a difference."""

    @pytest.mark.parametrize("name", ["lognormal, σ = 1", "10 σ in 30 % of runs"])
    @pytest.mark.parametrize("seeds", [5, 8])
    def test_where_both_methods_are_skewed(self, name, seeds):
        ours, _, _ = error_rates(DISTRIBUTIONS[name], seeds, 1000, both=True)
        assert ours <= 0.06

    def test_what_no_test_can_see_is_on_the_calibration_page(self):
        _, t, where_found = error_rates(DISTRIBUTIONS["10 σ in 10 % of runs"], 5, 1000, both=False)
        assert t > 0.15
        assert where_found <= 0.06

    @pytest.mark.parametrize("rates", [(0.1, 0.0), (0.2, 0.2)])
    def test_where_trainings_diverge(self, rates):
        better, more_often, t = detection_rates(rates, 5, 1000)
        assert better <= 0.06
        assert more_often <= 0.06
        assert t > 0.15 or rates[0] == rates[1]


class TestVerdict:
    def test_the_weaker_of_t_at_a_fifth_of_the_level_and_sign_flips_decides(self):
        generator = np.random.default_rng(0)
        decided_by = {"t": 0, "flips": 0}
        for _ in range(300):
            found = difference_of(*(generator.lognormal(0, 1, 7) + 2))
            p_t = stats.ttest_1samp(found.per_seed, 0).pvalue
            if not found.is_skewed:
                assert (found.p_sign_flips, found.p) == (None, pytest.approx(p_t))
                continue
            assert found.p == pytest.approx(max(min(1, 5 * p_t), sign_flip_p(found.per_seed)))
            assert found.distinguishable == (found.p < 0.05)
            decided_by["t" if found.p > found.p_sign_flips else "flips"] += 1
        assert min(decided_by.values()) > 5

    def test_on_few_seeds_there_are_no_sign_flips(self):
        near = difference_of(1.0, 1.1, 0.9, 1.05, 2.8)
        p_t = stats.ttest_1samp(near.per_seed, 0).pvalue
        assert near.is_skewed
        assert 0.01 < p_t < 0.05
        assert near.p == pytest.approx(5 * p_t)
        assert not near.distinguishable
        notes = verdict(near, lower_is_better=True).notes
        assert says(" ".join(notes), "strongly skewed", "needs 6 seeds", "there are 5")
        far = difference_of(10.0, 10.1, 9.9, 10.05, 11.8)
        assert far.is_skewed
        judged = verdict(far, lower_is_better=True)
        assert judged.better == "dot"
        assert "strongly skewed" in judged.notes[0]

    def test_sign_flips_overrule_t(self):
        # Two of 64 choices of signs are as far from 0: p = 1/32, above the 0.02 of this level.
        found = replace(difference_of(10.0, 10.1, 9.9, 10.05, 10.0, 11.8), level=0.98)
        assert found.p == found.p_sign_flips == smallest_p(6)
        assert (found.low, found.distinguishable) == (0, False)
        assert replace(found, level=0.95).distinguishable

    def test_corrected_for_others_sign_flips_need_more_seeds(self):
        skewed = difference_of(10.0, 10.1, 9.9, 10.05, 10.0, 11.8)
        first, *_ = holm([skewed, difference_of(*range(-3, 4)), difference_of(*range(-3, 4))])
        assert first.p_sign_flips is None
        assert first.seeds_for_sign_flips == 7
        assert first.distinguishable
        assert first.p_adjusted == pytest.approx(3 * first.p)

    def test_unskewed_differences_have_no_note(self):
        found = difference_of(1.0, 2.0, 3.0, 4.0, 5.0)
        assert not any("skew" in note for note in verdict(found, lower_is_better=True).notes)
