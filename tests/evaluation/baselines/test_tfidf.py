"""TF-IDF + logistic regression: accuracy, pairs, degenerate data."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info

from regard.core.errors import UserError
from regard.evaluation.baselines import tfidf
from regard.evaluation.baselines.tfidf import TfidfClassifier, question_only, terms

GENERATOR = np.random.default_rng(0)
FILLERS = ["the", "film", "that", "we", "saw", "with", "friends", "on", "a", "rainy", "day"]
GOOD, BAD = ["great", "lovely", "fine"], ["dull", "awful", "poor"]


def review(good: bool) -> str:
    words = [*GENERATOR.choice(FILLERS, 8), GENERATOR.choice(GOOD if good else BAD)]
    return " ".join(GENERATOR.permutation(words))


TRUTH = [bool(one) for one in GENERATOR.integers(0, 2, 120)]
REVIEWS = [review(one) for one in TRUTH]


def accuracy(predicted: list, truth: list) -> float:
    return float(np.mean([one == other for one, other in zip(predicted, truth, strict=True)]))


def test_classifier_learns_informative_words_and_describes_itself() -> None:
    classifier = TfidfClassifier(REVIEWS[:80], TRUTH[:80])
    assert accuracy(classifier.predict(REVIEWS[80:]), TRUTH[80:]) > 0.9
    assert classifier.label.startswith("TF-IDF + logistic regression, C = ")
    assert classifier.description.endswith("C by 3-fold cross-validation of train")


def test_fit_is_deterministic() -> None:
    one, other = (TfidfClassifier(REVIEWS[:40], TRUTH[:40], seed=3) for _ in range(2))
    assert one.label == other.label
    assert one.predict(REVIEWS) == other.predict(REVIEWS)


def test_terms_are_unigrams_and_bigrams() -> None:
    assert terms("Not bad!") == ["not", "bad", "!", "not bad", "bad !"]
    texts = ["not good but bad", "not bad but good"] * 20
    classifier = TfidfClassifier(texts, ["bad", "good"] * 20)
    assert classifier.predict(["not bad but good", "not good but bad"]) == ["good", "bad"]


def test_characters_are_words_where_words_have_no_spaces() -> None:
    assert terms("電影real好") == ["電", "影", "real", "好", "電 影", "影 real", "real 好"]
    assert terms("หนัง")[:4] == list("หนัง")
    texts = [
        f"這部電影{'很好' if good else '太差'}第{number}次" for number, good in enumerate(TRUTH)
    ]
    classifier = TfidfClassifier(texts[:80], TRUTH[:80])
    assert accuracy(classifier.predict(texts[80:]), TRUTH[80:]) > 0.9


def test_random_labels_stay_near_chance() -> None:
    truth = GENERATOR.integers(0, 2, len(REVIEWS)).tolist()
    assert (
        accuracy(TfidfClassifier(REVIEWS[:60], truth[:60]).predict(REVIEWS[60:]), truth[60:]) < 0.75
    )


def test_class_of_one_example_and_unseen_label() -> None:
    texts, labels = ["a cat", "a small cat", "one cat", "a dog"], ["cat", "cat", "cat", "dog"]
    predicted = TfidfClassifier(texts, labels).predict(["a cat", "a dog", "a fish"])
    assert predicted[0] == "cat"
    assert "fish" not in predicted


@pytest.mark.parametrize(
    ("rows", "labels", "why"),
    [
        (["a", "b"], ["yes", "yes"], "one label"),
        (["", " "], ["yes", "no"], "no word"),
    ],
)
def test_degenerate_training_data_gives_the_majority_class(rows, labels, why) -> None:
    classifier = TfidfClassifier(rows, labels)
    assert why in classifier.label
    assert classifier.predict(["a", "c"]) == [min(labels)] * 2


def test_two_rows_suffice_and_no_rows_give_no_predictions() -> None:
    classifier = TfidfClassifier(["up", "down"], [1, 0])
    assert classifier.predict(["up", "down"]) == [1, 0]
    assert classifier.predict([]) == []


@pytest.mark.parametrize(("rows", "labels"), [([], []), (["a"], []), (["a"], [1, 2])])
def test_mismatched_rows_and_labels_raise(rows, labels) -> None:
    with pytest.raises(UserError, match="do not match"):
        TfidfClassifier(rows, labels)


def test_pairs_are_classified_by_shared_words_but_one_side_is_not_enough() -> None:
    def pair(same: bool) -> tuple[str, str]:
        drawn = [f"w{n}" for n in GENERATOR.choice(300, 9, replace=False)]
        return " ".join(drawn[:6]), " ".join(drawn[:3] if same else drawn[6:])

    truth = [bool(one) for one in GENERATOR.integers(0, 2, 120)]
    pairs = [pair(one) for one in truth]
    assert accuracy(TfidfClassifier(pairs[:60], truth[:60]).predict(pairs[60:]), truth[60:]) > 0.9
    second_only = question_only([second for _, second in pairs[:60]], truth[:60])
    assert second_only.label.startswith("question only: TF-IDF + logistic regression")
    assert accuracy(second_only.predict([second for _, second in pairs[60:]]), truth[60:]) < 0.75


def test_pairs_without_a_shared_word() -> None:
    pairs = [("a", "b"), ("c", "d"), ("a", "d")]
    assert TfidfClassifier(pairs, [1, 2, 1]).predict([("a", "b"), ("", "")])[0] == 1


def test_strength_is_chosen_on_a_subset_of_many_rows(monkeypatch) -> None:
    monkeypatch.setattr(tfidf, "MAX_TUNING_ROWS", 30)
    monkeypatch.setattr(tfidf, "MANY_ROWS", 50)
    classifier = TfidfClassifier(REVIEWS[:80], TRUTH[:80])
    assert classifier.description.endswith("3-fold cross-validation of train on 30 rows")
    assert accuracy(classifier.predict(REVIEWS[80:]), TRUTH[80:]) > 0.9


def test_fit_raises_no_warning() -> None:
    labels = [str(n % 5) for n in range(len(REVIEWS))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predicted = TfidfClassifier(REVIEWS, labels).predict(REVIEWS)
    assert set(predicted) <= set(labels)


@pytest.mark.parametrize("extractor", ["texts", "pairs"])
def test_features_of_training_rows_are_those_of_any_rows(extractor: str) -> None:
    rows = REVIEWS if extractor == "texts" else list(pairwise(REVIEWS))
    fitted = tfidf.fit_vectorizer(rows)
    assert fitted is not None
    vectorize, features = fitted
    again = vectorize(rows)
    assert features.shape == again.shape
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(features, name), getattr(again, name))
    x = TfidfVectorizer(analyzer=terms, sublinear_tf=True).fit(REVIEWS).transform(REVIEWS)
    assert extractor == "pairs" or (abs(x - features) > 0).nnz == 0


def test_a_fit_takes_one_thread_of_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    fit = LogisticRegression.fit

    def count_threads(self: LogisticRegression, x: object, y: object) -> LogisticRegression:
        threads.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
        return fit(self, x, y)

    monkeypatch.setattr(LogisticRegression, "fit", count_threads)
    before = threadpool_info()
    TfidfClassifier(REVIEWS[:40], TRUTH[:40])
    assert set(threads) <= {1}
    assert threadpool_info() == before
