"""TF-IDF + logistic regression finds what words tell, and nothing on the way fails."""

import warnings

import numpy as np
import pytest

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


def share_right(said: list, truth: list) -> float:
    return float(np.mean([one == other for one, other in zip(said, truth, strict=True)]))


def test_it_learns_what_words_tell_and_says_how() -> None:
    classifier = TfidfClassifier(REVIEWS[:80], TRUTH[:80])
    assert share_right(classifier.predict(REVIEWS[80:]), TRUTH[80:]) > 0.9
    assert classifier.label.startswith("TF-IDF + logistic regression, C = ")
    assert classifier.how.endswith("C by 3-fold cross-validation of train")


def test_the_same_twice() -> None:
    one, other = (TfidfClassifier(REVIEWS[:40], TRUTH[:40], seed=3) for _ in range(2))
    assert one.label == other.label
    assert one.predict(REVIEWS) == other.predict(REVIEWS)


def test_neighbours_count_words_further_apart_do_not() -> None:
    assert terms("Not bad!") == ["not", "bad", "!", "not bad", "bad !"]
    texts = ["not good but bad", "not bad but good"] * 20
    classifier = TfidfClassifier(texts, ["bad", "good"] * 20)
    assert classifier.predict(["not bad but good", "not good but bad"]) == ["good", "bad"]


def test_labels_that_words_do_not_tell_stay_near_chance() -> None:
    truth = GENERATOR.integers(0, 2, len(REVIEWS)).tolist()
    assert (
        share_right(TfidfClassifier(REVIEWS[:60], truth[:60]).predict(REVIEWS[60:]), truth[60:])
        < 0.75
    )


def test_a_class_of_one_example_and_a_label_that_train_does_not_have() -> None:
    texts, labels = ["a cat", "a small cat", "one cat", "a dog"], ["cat", "cat", "cat", "dog"]
    said = TfidfClassifier(texts, labels).predict(["a cat", "a dog", "a fish"])
    assert said[0] == "cat"
    assert "fish" not in said


@pytest.mark.parametrize(
    ("rows", "labels", "why"),
    [
        (["a", "b"], ["yes", "yes"], "one label"),
        (["", " "], ["yes", "no"], "no word"),
    ],
)
def test_where_words_cannot_tell_it_is_the_majority_class(rows, labels, why) -> None:
    classifier = TfidfClassifier(rows, labels)
    assert why in classifier.label
    assert classifier.predict(["a", "c"]) == [min(labels)] * 2


def test_two_rows_are_enough_and_none_are_answered_with_none() -> None:
    classifier = TfidfClassifier(["up", "down"], [1, 0])
    assert classifier.predict(["up", "down"]) == [1, 0]
    assert classifier.predict([]) == []


@pytest.mark.parametrize(("rows", "labels"), [([], []), (["a"], []), (["a"], [1, 2])])
def test_rows_and_labels_that_do_not_belong_together(rows, labels) -> None:
    with pytest.raises(UserError, match="cannot be held against"):
        TfidfClassifier(rows, labels)


def test_pairs_are_told_by_what_both_sides_share_and_one_side_alone_tells_nothing() -> None:
    def pair(same: bool) -> tuple[str, str]:
        drawn = [f"w{n}" for n in GENERATOR.choice(300, 9, replace=False)]
        return " ".join(drawn[:6]), " ".join(drawn[:3] if same else drawn[6:])

    truth = [bool(one) for one in GENERATOR.integers(0, 2, 120)]
    pairs = [pair(one) for one in truth]
    assert (
        share_right(TfidfClassifier(pairs[:60], truth[:60]).predict(pairs[60:]), truth[60:]) > 0.9
    )
    alone = question_only([second for _, second in pairs[:60]], truth[:60])
    assert alone.label.startswith("question only: TF-IDF + logistic regression")
    assert share_right(alone.predict([second for _, second in pairs[60:]]), truth[60:]) < 0.75


def test_pairs_without_a_word_in_both() -> None:
    pairs = [("a", "b"), ("c", "d"), ("a", "d")]
    assert TfidfClassifier(pairs, [1, 2, 1]).predict([("a", "b"), ("", "")])[0] == 1


def test_many_rows_choose_the_strength_on_some(monkeypatch) -> None:
    monkeypatch.setattr(tfidf, "TRIED_ROWS", 30)
    monkeypatch.setattr(tfidf, "MANY_ROWS", 50)
    classifier = TfidfClassifier(REVIEWS[:80], TRUTH[:80])
    assert classifier.how.endswith("3-fold cross-validation of train on 30 rows")
    assert share_right(classifier.predict(REVIEWS[80:]), TRUTH[80:]) > 0.9


def test_it_says_nothing_on_the_way() -> None:
    labels = [str(n % 5) for n in range(len(REVIEWS))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = TfidfClassifier(REVIEWS, labels).predict(REVIEWS)
    assert set(said) <= set(labels)
