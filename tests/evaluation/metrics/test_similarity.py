import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from regard.core.errors import UserError
from regard.evaluation.metrics.scoring import score
from regard.evaluation.metrics.similarity import SimilarityMetric
from regard.evaluation.statistics.intervals import Bootstrap

METRIC = SimilarityMetric()


def value(score_name, truths, predicted):
    rows = [{"truth": t, "predicted": p} for t, p in zip(truths, predicted, strict=True)]
    return float(METRIC.score_function(score_name)(METRIC.statistics(rows).sum(axis=1)))


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-30, 30)), min_size=2, max_size=30).filter(
        lambda pairs: all(len(set(side)) > 1 for side in zip(*pairs, strict=True))
    ),
    st.sampled_from([1.0, 1e-6, 1e9]),
    st.sampled_from([0.0, 1e4]),
)
def test_correlations_equal_scipy(pairs, scale, shift):
    truths, predicted = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    predicted = predicted * scale + shift * scale
    truths, predicted = truths.tolist(), predicted.tolist()
    assert value("spearman", truths, predicted) == pytest.approx(
        spearmanr(truths, predicted).statistic, abs=1e-9
    )
    assert value("pearson", truths, predicted) == pytest.approx(
        pearsonr(truths, predicted).statistic, abs=1e-9
    )


def test_spearman_depends_on_ranks_only():
    truths = [1, 2, 3, 4]
    assert value("spearman", truths, [1, 10, 100, 1000]) == pytest.approx(1)
    assert value("pearson", truths, [1, 10, 100, 1000]) < 0.9
    assert value("spearman", truths, [4, 3, 2, 1]) == pytest.approx(-1)


def test_constant_scores_have_correlation_zero():
    assert value("spearman", [1, 2, 3], [0.7] * 3) == 0
    assert value("pearson", [1, 2, 3], [0.7] * 3) == 0


def test_resamples_of_equal_items_stay_within_bounds():
    rows = [{"item": i, "truth": float(i == 2), "predicted": i / 3} for i in range(3)]
    for estimate in score(METRIC, rows, split="dev", bootstrap=Bootstrap(resamples=200)):
        assert -1 <= estimate.low <= estimate.value <= estimate.high <= 1


@pytest.mark.parametrize("given", ["0.3", None, True, float("inf")])
def test_non_finite_scores_raise(given):
    with pytest.raises(UserError, match="not a finite number"):
        METRIC.statistics([{"truth": 1, "predicted": given}])
