"""The error rate of a test that is looked at several times."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from regard.evaluation.statistics.looks import wrong_verdict_rate

LOOKS = st.lists(st.sets(st.integers(0, 9), min_size=2), min_size=1, max_size=4)


def test_one_look_is_wrong_as_often_as_its_level():
    assert wrong_verdict_rate([range(5)]) == pytest.approx(0.05)
    assert wrong_verdict_rate([range(5)], levels=[0.99]) == pytest.approx(0.01)


def test_looks_at_one_seed_or_at_the_same_seeds_do_not_count():
    assert wrong_verdict_rate([[3], range(5), [4, 3, 2, 1, 0]]) == pytest.approx(0.05)
    assert wrong_verdict_rate([[3]]) == 0


def test_two_looks_at_different_seeds_are_independent():
    assert wrong_verdict_rate([range(4), range(4, 9)]) == pytest.approx(1 - 0.95**2, abs=0.002)


def test_rate_equals_that_of_scipys_test():
    generator = np.random.default_rng(1)
    differences = generator.standard_normal((20_000, 8))
    p = [stats.ttest_1samp(differences[:, :seeds], 0, axis=1).pvalue for seeds in (3, 5, 8)]
    found = (np.min(p, axis=0) < 0.05).mean()
    rate = wrong_verdict_rate([range(3), range(5), range(8)])
    # Four standard errors of 20,000 studies.
    assert rate == pytest.approx(found, abs=0.0095)
    assert 0.10 < rate < 0.13


@settings(max_examples=25, deadline=None)
@given(LOOKS, st.sets(st.integers(0, 9), min_size=2), st.permutations(range(10)))
def test_more_looks_are_wrong_more_often_and_names_of_seeds_do_not_matter(looks, more, names):
    rate = wrong_verdict_rate(looks)
    # Different looks are simulated with other numbers.
    assert wrong_verdict_rate([*looks, more]) >= rate - 0.004
    assert rate <= 0.05 * len({frozenset(look) for look in looks}) + 0.004
    renamed = [{names[seed] for seed in look} for look in looks]
    assert wrong_verdict_rate(renamed) == pytest.approx(rate, abs=0.004)
