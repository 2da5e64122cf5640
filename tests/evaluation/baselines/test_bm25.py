"""BM25 against figures by hand and against its formula, word for word."""

from collections import Counter
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.evaluation.baselines import bm25
from regard.evaluation.baselines.bm25 import BM25, plain_words

TEXTS = st.lists(st.sampled_from("abcde"), max_size=8).map(" ".join)


def test_by_hand() -> None:
    index = BM25(["cat sat", "cat cat dog", "a bird sat here"], k1=1.2, b=0.75)
    # N = 3, mean length 3; `cat` is in 2 documents: idf = ln(1 + 1.5 / 2.5) = 0.4700
    # short: 0.4700 · 2.2 / (1 + 1.2 · (0.25 + 0.75 · 2/3)) = 0.4700 · 2.2 / 1.9 = 0.5442
    # twice: 0.4700 · 4.4 / (2 + 1.2 · 1) = 0.4700 · 1.375 = 0.6463
    [found] = index.rank(["Cat?"], 5)
    assert found.ids.tolist() == [1, 0]
    assert found.scores == pytest.approx([0.6463, 0.5442], abs=1e-4)
    [again] = index.rank(["cat cat fish"], 1)
    assert again.ids.tolist() == [1]
    assert again.scores == pytest.approx(2 * found.scores[:1])


def test_nothing_shared_and_words_unknown_find_nothing() -> None:
    found = BM25(["a b", ""]).rank(["c", "", "a"], 3)
    assert [one.ids.tolist() for one in found] == [[], [], [0]]


def by_formula(documents: list[str], query: str, *, k1: float, b: float) -> list[tuple[int, float]]:
    bags = [Counter(plain_words(document)) for document in documents]
    mean = sum(bag.total() for bag in bags) / len(bags)
    scores = []
    for number, bag in enumerate(bags):
        score = 0.0
        for word in plain_words(query):
            having = sum(word in other for other in bags)
            if bag[word]:
                damping = k1 * (1 - b + b * bag.total() / mean)
                idf = log(1 + (len(bags) - having + 0.5) / (having + 0.5))
                score += idf * bag[word] * (k1 + 1) / (bag[word] + damping)
        if score:
            scores.append((number, score))
    return sorted(scores, key=lambda one: (-round(one[1], 9), one[0]))


@given(st.lists(TEXTS, min_size=1, max_size=8), TEXTS, st.sampled_from([(0.9, 0.4), (1.2, 0.75)]))
def test_equals_the_formula(documents: list[str], query: str, settings) -> None:
    k1, b = settings
    [found] = BM25(documents, k1=k1, b=b).rank([query], 20)
    truth = by_formula(documents, query, k1=k1, b=b)
    assert sorted(found.ids.tolist()) == sorted(number for number, _ in truth)
    assert found.scores == pytest.approx([score for _, score in truth], rel=1e-9)


@given(st.lists(TEXTS, min_size=1, max_size=8), st.lists(TEXTS, max_size=5), st.integers(1, 4))
def test_the_few_best_are_the_first_of_all_however_queries_are_cut(documents, queries, k) -> None:
    index = BM25(documents)
    whole = index.rank(queries, 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25, "SCORES_AT_ONCE", 1)
        few = index.rank(queries, k)
    for one, other in zip(few, whole, strict=True):
        np.testing.assert_array_equal(one.ids, other.ids[:k])
        np.testing.assert_array_equal(one.scores, other.scores[:k])


def test_equal_documents_stand_in_their_order() -> None:
    [found] = BM25(["x", "y z", "y z", "y z", "q"]).rank(["z y"], 2)
    assert found.ids.tolist() == [1, 2]


def test_words_can_be_cut_otherwise_and_the_label_says_so() -> None:
    def first_letters(text: str) -> list[str]:
        return [word[0] for word in plain_words(text)]

    index = BM25(["flows", "wings"], words=first_letters)
    assert index.rank(["flow"], 1)[0].ids.tolist() == [0]
    assert index.label == "BM25 (k1 = 1.2, b = 0.75, first letters)"


@pytest.mark.parametrize("settings", [{"k1": -1.0}, {"b": 1.5}])
def test_settings_out_of_range(settings) -> None:
    with pytest.raises(UserError, match="cannot be used"):
        BM25(["a"], **settings)


def test_no_documents_and_no_places() -> None:
    with pytest.raises(UserError, match="no document"):
        BM25([])
    with pytest.raises(UserError, match="k = 0"):
        BM25(["a"]).rank(["a"], 0)
