import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from regard.evaluation.statistics.divergence import DivergenceCount, fisher_exact

COUNTS = st.integers(1, 30).flatmap(
    lambda seeds: st.builds(DivergenceCount, st.integers(0, seeds), st.just(seeds))
)


@given(COUNTS, COUNTS)
def test_p_equals_scipys(a, b):
    table = [[one.diverged, one.seeds - one.diverged] for one in (a, b)]
    assert fisher_exact(a, b) == pytest.approx(stats.fisher_exact(table).pvalue)
    assert fisher_exact(a, b) == fisher_exact(b, a)


def test_p_by_hand():
    # All 6 of one and none of 6 of the other: 2 of the 924 ways to choose 6 of 12.
    assert fisher_exact(DivergenceCount(6, 6), DivergenceCount(0, 6)) == pytest.approx(2 / 924)
    assert fisher_exact(DivergenceCount(0, 6), DivergenceCount(0, 9)) == 1


@pytest.mark.parametrize(("diverged", "seeds"), [(-1, 3), (4, 3)])
def test_impossible_counts_raise(diverged, seeds):
    with pytest.raises(ValueError, match="cannot"):
        DivergenceCount(diverged, seeds)
