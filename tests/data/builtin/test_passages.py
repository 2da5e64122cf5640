"""Passages and statements: answer offsets are exact, and word statistics do not solve them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from regard.data.builtin.world.passages import passages
from regard.data.builtin.world.people import world
from regard.data.builtin.world.statements import statements


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def overlap(question: str, text: str) -> float:
    """Fraction of the question's words that occur in the text."""
    return float(np.mean([word in tokens(text) for word in tokens(question)]))


def occurrences(question: str, text: str) -> float:
    """Number of occurrences of the question's words in the text."""
    counts = Counter(tokens(text))
    return float(sum(counts[word] for word in set(tokens(question))))


def best_threshold(scores: Sequence[float], truth: Sequence[bool]) -> float:
    """Accuracy of the best rule `score ≥ t` or its negation."""
    values, answers = np.array(scores), np.array(truth)
    accuracies = [float(((values >= t) == answers).mean()) for t in np.unique(values)]
    return max(*accuracies, *(1 - accuracy for accuracy in accuracies))


def tfidf_accuracy(
    rows: list[dict], columns: Sequence[str], label: Callable[[dict], object]
) -> float:
    """Accuracy of TF-IDF + logistic regression, fitted on train, on dev and test."""
    train = [row for row in rows if row["split"] == "train"]
    held_out = [row for row in rows if row["split"] != "train"]
    sides = []
    for column in columns:
        vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        vectors.fit([row[column] for row in train])
        sides.append(
            [vectors.transform([row[column] for row in split]) for split in (train, held_out)]
        )
    train_features, held_out_features = (hstack(side).tocsr() for side in zip(*sides, strict=True))
    model = LogisticRegression(C=3.0, max_iter=500).fit(
        train_features, [label(row) for row in train]
    )
    return float(model.score(held_out_features, [label(row) for row in held_out]))


def test_answer_starts_are_exact() -> None:
    for row in passages():
        assert row["impossible"] == (not row["answers"])
        assert len(row["answers"]) == len(row["answer_starts"]) == (not row["impossible"])
        for answer, start in zip(row["answers"], row["answer_starts"], strict=True):
            assert row["context"][start : start + len(answer)] == answer


def test_three_of_five_questions_are_answerable_in_every_split() -> None:
    counts = Counter((row["split"], row["impossible"]) for row in passages())
    for split in ("train", "dev", "test"):
        assert counts[split, True] * 3 == counts[split, False] * 2


def test_every_question_names_somebody_of_the_passage() -> None:
    for row in passages():
        people = row["title"].split(" and ")
        assert sum(name in row["question"] for name in people) == 1
        assert all(name in row["context"] for name in people)


def test_passages_name_no_withheld_person() -> None:
    seen = {person.name for person in world() if person.seen}
    titles = [row["title"] for row in passages()] + [row["group"] for row in statements()]
    assert {name for title in titles for name in title.split(" and ")} <= seen


@pytest.mark.long
def test_word_overlap_does_not_reveal_answerability() -> None:
    rows = list(passages())
    possible = [not row["impossible"] for row in rows]
    for score in (overlap, occurrences):
        found = [score(row["question"], row["context"]) for row in rows]
        assert best_threshold(found, possible) < 0.63


@pytest.mark.long
def test_tfidf_does_not_reveal_answerability() -> None:
    rows = list(passages())
    assert tfidf_accuracy(rows, ["question"], lambda row: row["impossible"]) < 0.64
    assert tfidf_accuracy(rows, ["question", "context"], lambda row: row["impossible"]) < 0.64


def test_answer_type_alone_does_not_find_the_answer() -> None:
    # most passages contain several towns
    towns = {person.birthplace for person in world()}
    pattern = re.compile("|".join(sorted(map(re.escape, towns), key=len, reverse=True)))
    found = [
        len(set(pattern.findall(row["context"])))
        for row in passages()
        if row["answers"] and row["answers"][0] in towns
    ]
    assert np.mean([count > 1 for count in found]) > 0.8


def test_half_of_the_claims_are_true() -> None:
    counts = Counter((row["split"], row["label"]) for row in statements())
    for split in ("train", "dev", "test"):
        assert counts[split, "yes"] == counts[split, "no"]
    negated = Counter(row["label"] for row in statements() if " not " in row["claim"])
    assert abs(negated["yes"] / negated.total() - 0.5) < 0.06


def test_word_statistics_do_not_decide_claims() -> None:
    rows = list(statements())
    assert tfidf_accuracy(rows, ["claim"], lambda row: row["label"]) < 0.57
    assert tfidf_accuracy(rows, ["claim", "passage"], lambda row: row["label"]) < 0.57
    true = [row["label"] == "yes" for row in rows]
    for score in (overlap, occurrences):
        found = [score(row["claim"], row["passage"]) for row in rows]
        assert best_threshold(found, true) < 0.55


def test_sentence_with_the_value_decides_every_plain_claim() -> None:
    # true if a sentence with the claimed value names the person
    value_of = re.compile(r"([A-Z]\w+(?: [A-Z]\w+)*)\.$|(\d{4})\.$")
    correct = []
    for row in statements():
        value = value_of.search(row["claim"])
        if value is None or " not " in row["claim"]:
            continue
        words = value[1] or value[2]
        name = next(name for name in row["group"].split(" and ") if name in row["claim"])
        stated = [s for s in row["passage"].split(". ") if words in s]
        correct.append((row["label"] == "yes") == any(name in sentence for sentence in stated))
    assert len(correct) > 1000
    assert np.mean(correct) > 0.99
