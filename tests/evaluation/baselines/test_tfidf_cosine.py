import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.baselines.tfidf_cosine import TfidfCosine

words = st.lists(st.sampled_from(["the", "cat", "dog", "sat", "new"]), max_size=6).map(" ".join)


def test_cosine_computed_by_hand():
    similarity = TfidfCosine(["the cat", "the dog", "the the"])
    the, cat = 1.0, 1 + math.log(4 / 2)
    x, y = {"the": the, "cat": cat}, {"the": (1 + math.log(2)) * the, "new": 1 + math.log(4)}
    norms = math.hypot(*x.values()) * math.hypot(*y.values())
    assert similarity.score("The cat!", "the new the") == pytest.approx(x["the"] * y["the"] / norms)


@given(words, words)
def test_cosine_is_between_0_and_1_and_symmetric(first, second):
    similarity = TfidfCosine(["the cat sat", "the dog"])
    score = similarity.score(first, second)
    assert 0 <= score <= 1
    assert score == pytest.approx(similarity.score(second, first))
    assert not first or similarity.score(first, first) == pytest.approx(1)
    assert (score == 0) == (not set(first.split()) & set(second.split()))
