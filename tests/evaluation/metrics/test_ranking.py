from math import log2

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.evaluation.metrics.ranking import RankingMetric, ndcg, recall, score_ranking
from regard.evaluation.metrics.scoring import score


def test_scores_computed_by_hand():
    # d has gain 3 and is not returned; b has rank 2, a rank 4.
    found = score_ranking(["x", "b", "y", "a"], {"a": 1, "b": 2, "d": 3, "y": 0, "z": -1})
    dcg = 2 / log2(3) + 1 / log2(5)
    ideal_dcg = 3 / log2(2) + 2 / log2(3) + 1 / log2(4)
    assert found == {
        "ndcg_at_10": pytest.approx(dcg / ideal_dcg),
        "recall_at_100": pytest.approx(2 / 3),
        "mrr": 1 / 2,
    }


def test_only_the_first_depth_results_count():
    ranked, judgements = [*range(10), "late"], {"late": 1}
    assert ndcg(ranked, judgements, depth=10) == 0
    assert ndcg(ranked, judgements, depth=11) > 0
    assert recall(ranked, judgements, depth=10) == 0
    # More relevant documents than depth: the ideal order has ten of them.
    assert ndcg(range(10), dict.fromkeys(range(30), 1), depth=10) == pytest.approx(1)


def test_no_results_score_zero():
    assert score_ranking([], {"a": 1}) == {"ndcg_at_10": 0, "recall_at_100": 0, "mrr": 0}


@given(st.lists(st.integers(0, 3), min_size=2, max_size=10).filter(any), st.integers(0, 99))
def test_ndcg_equals_scikit_learn(gains, seed):
    order = np.random.default_rng(seed).permutation(len(gains))
    scores = np.empty(len(gains))
    scores[order] = np.arange(len(gains))[::-1]
    expected = sklearn.metrics.ndcg_score([gains], [scores], k=10)
    judgements = dict(enumerate(gains))
    assert ndcg(order.tolist(), judgements, depth=10) == pytest.approx(expected)


@given(st.permutations(range(6)))
def test_ideal_order_has_ndcg_one(order):
    judgements = {0: 3.0, 1: 2.0, 2: 1.0}
    assert ndcg(order, judgements, depth=10) <= ndcg(range(6), judgements, depth=10) == 1


def test_scores_are_means_over_queries():
    rows = [{"item": i, **score_ranking(["a", "b"], {"ab"[i]: 1})} for i in range(2)]
    estimates = {estimate.name: estimate for estimate in score(RankingMetric(), rows, split="test")}
    assert estimates["mrr"].value == pytest.approx((1 + 1 / 2) / 2)
    assert estimates["ndcg_at_10"].value == pytest.approx((1 + 1 / log2(3)) / 2)
    assert (estimates["mrr"].n, estimates["mrr"].items) == (2, "queries")


@pytest.mark.parametrize(
    ("ranked", "judgements", "message"),
    [
        (["a"], {"a": 0}, "no relevant document"),
        (["a"], {}, "no relevant document"),
        (["a", "a"], {"a": 1}, "twice"),
    ],
)
def test_invalid_rankings_raise(ranked, judgements, message):
    with pytest.raises(UserError, match=message):
        score_ranking(ranked, judgements)


def test_non_finite_score_raises():
    with pytest.raises(UserError, match="mrr is nan, not a finite number"):
        RankingMetric().statistics([{"ndcg_at_10": 0, "recall_at_100": 1, "mrr": float("nan")}])
