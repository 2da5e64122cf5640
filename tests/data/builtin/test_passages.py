"""Passages and statements: answers stand where they are said to, and no trick of words tells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from regard.data.builtin.world.passages import passages
from regard.data.builtin.world.people import world
from regard.data.builtin.world.statements import statements


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def overlap(question: str, text: str) -> float:
    """The share of the question's words that stand in the text."""
    return float(np.mean([word in tokens(text) for word in tokens(question)]))


def repeated(question: str, text: str) -> float:
    """How often the question's words stand in the text."""
    counts = Counter(tokens(text))
    return float(sum(counts[word] for word in set(tokens(question))))


def best_threshold(scores: Sequence[float], truth: Sequence[bool]) -> float:
    """The accuracy of the best rule `score ≥ t`, either way round."""
    values, answers = np.array(scores), np.array(truth)
    shares = [float(((values >= t) == answers).mean()) for t in np.unique(values)]
    return max(*shares, *(1 - share for share in shares))


def by_words(rows: list[dict], columns: Sequence[str], label: Callable[[dict], object]) -> float:
    """The accuracy of TF-IDF + logistic regression, learned on train, on the others."""
    train = [row for row in rows if row["part"] == "train"]
    judged = [row for row in rows if row["part"] != "train"]
    sides = []
    for column in columns:
        vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        vectors.fit([row[column] for row in train])
        sides.append([vectors.transform([row[column] for row in part]) for part in (train, judged)])
    known, asked = (hstack(side).tocsr() for side in zip(*sides, strict=True))
    model = LogisticRegression(C=3.0, max_iter=500).fit(known, [label(row) for row in train])
    return float(model.score(asked, [label(row) for row in judged]))


def test_answers_stand_where_they_are_said_to() -> None:
    for row in passages():
        assert row["impossible"] == (not row["answers"])
        assert len(row["answers"]) == len(row["answer_starts"]) == (not row["impossible"])
        for answer, start in zip(row["answers"], row["answer_starts"], strict=True):
            assert row["context"][start : start + len(answer)] == answer


def test_three_of_five_questions_have_an_answer_in_every_part() -> None:
    counts = Counter((row["part"], row["impossible"]) for row in passages())
    for part in ("train", "dev", "test"):
        assert counts[part, True] * 3 == counts[part, False] * 2


def test_every_question_names_somebody_of_the_passage() -> None:
    for row in passages():
        people = row["title"].split(" and ")
        assert sum(name in row["question"] for name in people) == 1
        assert all(name in row["context"] for name in people)


def test_withheld_people_are_in_no_passage() -> None:
    told = {person.name for person in world() if person.told}
    titles = [row["title"] for row in passages()] + [row["group"] for row in statements()]
    assert {name for title in titles for name in title.split(" and ")} <= told


def test_common_words_do_not_tell_whether_there_is_an_answer() -> None:
    rows = list(passages())
    possible = [not row["impossible"] for row in rows]
    for score in (overlap, repeated):
        found = [score(row["question"], row["context"]) for row in rows]
        assert best_threshold(found, possible) < 0.63


def test_neither_the_question_nor_all_words_tell_whether_there_is_an_answer() -> None:
    rows = list(passages())
    assert by_words(rows, ["question"], lambda row: row["impossible"]) < 0.64
    assert by_words(rows, ["question", "context"], lambda row: row["impossible"]) < 0.64


def test_the_kind_of_answer_alone_does_not_find_it() -> None:
    # a passage holds several towns, so asking for one leaves a choice
    towns = {person.birthplace for person in world()}
    pattern = re.compile("|".join(sorted(map(re.escape, towns), key=len, reverse=True)))
    found = [
        len(set(pattern.findall(row["context"])))
        for row in passages()
        if row["answers"] and row["answers"][0] in towns
    ]
    assert np.mean([count > 1 for count in found]) > 0.8


def test_half_of_the_claims_are_true() -> None:
    counts = Counter((row["part"], row["label"]) for row in statements())
    for part in ("train", "dev", "test"):
        assert counts[part, "yes"] == counts[part, "no"]
    denied = Counter(row["label"] for row in statements() if " not " in row["claim"])
    assert abs(denied["yes"] / denied.total() - 0.5) < 0.06


def test_neither_claim_nor_common_words_tell_whether_it_is_true() -> None:
    rows = list(statements())
    assert by_words(rows, ["claim"], lambda row: row["label"]) < 0.57
    assert by_words(rows, ["claim", "passage"], lambda row: row["label"]) < 0.57
    true = [row["label"] == "yes" for row in rows]
    for score in (overlap, repeated):
        found = [score(row["claim"], row["passage"]) for row in rows]
        assert best_threshold(found, true) < 0.55


def test_a_reader_who_knows_the_relations_decides_every_plain_claim() -> None:
    # the sentence with the claimed value is about the person claimed, or it is not
    value_of = re.compile(r"([A-Z]\w+(?: [A-Z]\w+)*)\.$|(\d{4})\.$")
    right = []
    for row in statements():
        value = value_of.search(row["claim"])
        if value is None or " not " in row["claim"]:
            continue
        words = value[1] or value[2]
        name = next(name for name in row["group"].split(" and ") if name in row["claim"])
        said = [s for s in row["passage"].split(". ") if words in s]
        right.append((row["label"] == "yes") == any(name in sentence for sentence in said))
    assert len(right) > 1000
    assert np.mean(right) > 0.99
