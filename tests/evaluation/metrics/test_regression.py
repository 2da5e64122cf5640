import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import mean_absolute_error, r2_score

from regard.evaluation.metrics.regression import RegressionMetric

METRIC = RegressionMetric()
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(-30, 30)), min_size=2, max_size=30)


def value(score_name, truths, predicted):
    rows = [{"truth": t, "predicted": p} for t, p in zip(truths, predicted, strict=True)]
    return float(METRIC.score_function(score_name)(METRIC.statistics(rows).sum(axis=1)))


@given(
    PAIRS.filter(lambda pairs: all(len(set(side)) > 1 for side in zip(*pairs, strict=True))),
    st.sampled_from([1.0, 1e-6, 1e6]),
    st.sampled_from([0.0, 1e3]),
)
def test_scores_equal_those_of_scikit_learn_and_scipy(pairs, scale, shift):
    truth, predicted = (scale * (np.array(side, dtype=float) + shift) for side in zip(*pairs))  # noqa: B905
    truth, predicted = truth.tolist(), predicted.tolist()
    assert value("r2", truth, predicted) == pytest.approx(r2_score(truth, predicted), rel=1e-6)
    assert value("mae", truth, predicted) == pytest.approx(mean_absolute_error(truth, predicted))
    assert value("pearson", truth, predicted) == pytest.approx(
        pearsonr(truth, predicted).statistic, abs=1e-7
    )
    assert value("spearman", truth, predicted) == pytest.approx(
        spearmanr(truth, predicted).statistic, abs=1e-9
    )


def test_the_mean_explains_nothing_and_a_wrong_scale_less():
    truth = [1.0, 2.0, 3.0, 6.0]
    assert value("r2", truth, [3.0] * 4) == pytest.approx(0)
    assert value("r2", truth, [10 * one for one in truth]) < 0
    assert value("pearson", truth, [10 * one for one in truth]) == pytest.approx(1)


def test_equal_truths_have_no_variance_to_explain():
    assert value("r2", [2.0, 2.0, 2.0], [1.0, 2.0, 3.0]) == 0
    assert value("r2", [2.0], [5.0]) == 0
