import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.baselines.tfidf_cosine import TfidfCosine

words = st.lists(st.sampled_from(["the", "cat", "dog", "sat", "new"]), max_size=6).map(" ".join)


def test_the_cosine_is_the_one_by_hand():
    ours = TfidfCosine(["the cat", "the dog", "the the"])
    the, cat = 1.0, 1 + math.log(4 / 2)
    x, y = {"the": the, "cat": cat}, {"the": (1 + math.log(2)) * the, "new": 1 + math.log(4)}
    lengths = math.hypot(*x.values()) * math.hypot(*y.values())
    assert ours.score("The cat!", "the new the") == pytest.approx(x["the"] * y["the"] / lengths)


@given(words, words)
def test_scores_are_shares_and_go_both_ways(first, second):
    ours = TfidfCosine(["the cat sat", "the dog"])
    score = ours.score(first, second)
    assert 0 <= score <= 1
    assert score == pytest.approx(ours.score(second, first))
    assert not first or ours.score(first, first) == pytest.approx(1)
    assert (score == 0) == (not set(first.split()) & set(second.split()))
