"""BM25 against scores computed by hand and against its formula."""

from collections import Counter
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wording import says

from regard.core.errors import UserError
from regard.evaluation.baselines import bm25
from regard.evaluation.baselines.bm25 import BM25, plain_words

TEXTS = st.lists(st.sampled_from("abcde"), max_size=8).map(" ".join)


def test_scores_computed_by_hand() -> None:
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


def test_queries_without_a_shared_word_find_nothing() -> None:
    found = BM25(["a b", ""]).rank(["c", "", "a"], 3)
    assert [result.ids.tolist() for result in found] == [[], [], [0]]


def by_formula(documents: list[str], query: str, *, k1: float, b: float) -> list[tuple[int, float]]:
    bags = [Counter(plain_words(document)) for document in documents]
    mean = sum(bag.total() for bag in bags) / len(bags)
    scores = []
    for number, bag in enumerate(bags):
        score = 0.0
        for word in plain_words(query):
            document_frequency = sum(word in other for other in bags)
            if bag[word]:
                length_norm = k1 * (1 - b + b * bag.total() / mean)
                idf = log(1 + (len(bags) - document_frequency + 0.5) / (document_frequency + 0.5))
                score += idf * bag[word] * (k1 + 1) / (bag[word] + length_norm)
        if score:
            scores.append((number, score))
    return sorted(scores, key=lambda result: (-round(result[1], 9), result[0]))


@given(st.lists(TEXTS, min_size=1, max_size=8), TEXTS, st.sampled_from([(0.9, 0.4), (1.2, 0.75)]))
def test_rank_equals_the_formula(documents: list[str], query: str, settings) -> None:
    k1, b = settings
    [found] = BM25(documents, k1=k1, b=b).rank([query], 20)
    expected = by_formula(documents, query, k1=k1, b=b)
    assert sorted(found.ids.tolist()) == sorted(number for number, _ in expected)
    assert found.scores == pytest.approx([score for _, score in expected], rel=1e-9)


@given(st.lists(TEXTS, min_size=1, max_size=8), st.lists(TEXTS, max_size=5), st.integers(1, 4))
def test_top_k_is_a_prefix_of_the_full_ranking_for_any_chunk_size(documents, queries, k) -> None:
    index = BM25(documents)
    whole = index.rank(queries, 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25, "SCORES_AT_ONCE", 1)
        few = index.rank(queries, k)
    for result, other in zip(few, whole, strict=True):
        np.testing.assert_array_equal(result.ids, other.ids[:k])
        np.testing.assert_array_equal(result.scores, other.scores[:k])


def test_ties_keep_document_order() -> None:
    [found] = BM25(["x", "y z", "y z", "y z", "q"]).rank(["z y"], 2)
    assert found.ids.tolist() == [1, 2]


def test_custom_word_splitting_is_in_the_label() -> None:
    def first_letters(text: str) -> list[str]:
        return [word[0] for word in plain_words(text)]

    index = BM25(["flows", "wings"], words=first_letters)
    assert index.rank(["flow"], 1)[0].ids.tolist() == [0]
    assert says(index.label, "BM25", "k1 = 1.2", "b = 0.75", "first letters")


@pytest.mark.parametrize("settings", [{"k1": -1.0}, {"b": 1.5}])
def test_invalid_settings_raise(settings) -> None:
    with pytest.raises(UserError, match="cannot be used"):
        BM25(["a"], **settings)


def test_no_documents_and_k_of_zero_raise() -> None:
    with pytest.raises(UserError, match="no document"):
        BM25([])
    with pytest.raises(UserError, match="k = 0"):
        BM25(["a"]).rank(["a"], 0)
