"""Labels that contradict each other, and labels that stand in the row."""

from __future__ import annotations

import random

import pytest

from regard.data.builtin import BUILTIN, read_rows
from regard.data.overlap.labels import (
    LabelConflict,
    conflicting_labels,
    label_giveaways,
    respelled_labels,
    swapped_pairs,
)

TOPICS = {
    "sport": [
        "match",
        "team",
        "goal",
        "season",
        "coach",
        "league",
        "cup",
        "player",
        "win",
        "score",
    ],
    "trade": [
        "market",
        "shares",
        "profit",
        "bank",
        "price",
        "company",
        "sales",
        "growth",
        "trade",
        "oil",
    ],
    "world": [
        "president",
        "war",
        "minister",
        "police",
        "election",
        "peace",
        "army",
        "border",
        "vote",
        "court",
    ],
}
COMMON = [
    "the",
    "a",
    "of",
    "and",
    "in",
    "to",
    "on",
    "for",
    "with",
    "new",
    "said",
    "after",
    "over",
    "last",
    "year",
]
BUILTIN_LABELS = [("opinions", "label"), ("statements", "label"), ("likeness", "score")]


def topic_rows(count: int = 1200) -> tuple[list[str], list[str]]:
    """An easy task: a bag of words is right in nearly every row, no single word is."""
    generator = random.Random(0)
    labels = [generator.choice(list(TOPICS)) for _ in range(count)]
    texts = [
        " ".join(generator.choices(TOPICS[label], k=5) + generator.choices(COMMON, k=15))
        for label in labels
    ]
    return texts, labels


def test_texts_with_several_labels() -> None:
    texts = ["A film.", "no", "a film", "", "A  FILM!", "", "no"]
    labels = ["good", "x", "bad", "y", "good", "z", "x"]
    assert conflicting_labels(texts, labels) == [LabelConflict((0, 2, 4), ("good", "bad", "good"))]
    assert conflicting_labels(texts, [1] * 7) == []


def test_an_easy_task_gives_nothing_away() -> None:
    texts, labels = topic_rows()
    assert label_giveaways({"text": texts}, labels) == []


@pytest.mark.parametrize("form", ["{text} {label}", "{label}: {text}", "[{label}] {text}"])
def test_the_label_in_the_text(form: str) -> None:
    texts, labels = topic_rows()
    told = [form.format(text=text, label=label) for text, label in zip(texts, labels, strict=True)]
    (giveaway,) = label_giveaways({"text": told}, labels)
    assert giveaway.name == "text"
    assert giveaway.accuracy >= 0.99
    for label, word in giveaway.words.items():
        assert label in word


def test_a_word_in_the_rows_of_one_label_of_two() -> None:
    texts, labels = topic_rows()
    two = ["yes" if label == "sport" else "no" for label in labels]
    told = [text + " banana" * (label == "yes") for text, label in zip(texts, two, strict=True)]
    (giveaway,) = label_giveaways({"text": told}, two)
    assert (giveaway.kind, dict(giveaway.words)) == ("word", {"yes": "banana"})
    rare = [text + " banana" * (i < 60) for i, text in enumerate(texts)]
    assert label_giveaways({"text": rare}, two) == []


@pytest.mark.parametrize(
    ("form", "kind", "characters"),
    [
        ("{text}{mark}", "last character", {"yes": "!", "no": "."}),
        ("{mark}{text}", "first character", {"yes": "!", "no": "."}),
    ],
)
def test_a_mark_without_a_space(form: str, kind: str, characters: dict[str, str]) -> None:
    texts, labels = topic_rows()
    two = ["yes" if label == "sport" else "no" for label in labels]
    marked = [
        form.format(text=text, mark=characters[label])
        for text, label in zip(texts, two, strict=True)
    ]
    (giveaway,) = label_giveaways({"text": marked}, two)
    assert (giveaway.kind, dict(giveaway.words)) == (kind, characters)


def test_a_column_that_decides_the_label() -> None:
    texts, labels = topic_rows()
    codes = [{"sport": 4, "trade": 7, "world": 9}[label] for label in labels]
    (giveaway,) = label_giveaways({"text": texts, "code": codes}, labels)
    assert (giveaway.kind, giveaway.name, giveaway.accuracy) == ("column", "code", 1.0)
    wrong = [0 if i % 20 == 0 else code for i, code in enumerate(codes)]
    assert label_giveaways({"code": wrong}, labels) == []
    assert label_giveaways({"id": range(len(labels))}, labels) == []


def test_one_label_nearly_everywhere_is_no_giveaway() -> None:
    texts, _ = topic_rows(4000)
    labels = ["rare" if i % 50 == 0 else "common" for i in range(len(texts))]
    often = [text + " banana" * (i % 50 == 0 and i % 1000 > 0) for i, text in enumerate(texts)]
    assert label_giveaways({"text": texts, "often": often}, labels) == []
    assert label_giveaways({"text": texts[:30]}, labels[:30]) == []


@pytest.mark.parametrize(("name", "label"), BUILTIN_LABELS)
def test_built_in_tasks_give_nothing_away(name: str, label: str) -> None:
    rows = list(read_rows(BUILTIN.get(name)))
    columns = {key: [row[key] for row in rows] for key in rows[0] if key not in (label, "split")}
    assert label_giveaways(columns, [row[label] for row in rows]) == []


def test_a_word_in_the_rows_of_one_label_of_three() -> None:
    texts, labels = topic_rows()
    told = [
        text + " banana" * (label == "sport") for text, label in zip(texts, labels, strict=True)
    ]
    (giveaway,) = label_giveaways({"text": told}, labels)
    assert (giveaway.kind, dict(giveaway.words)) == ("word", {"sport": "banana"})
    assert giveaway.is_of_one_label
    often = [text + " banana" * (i % 20 == 0) for i, text in enumerate(told)]
    assert label_giveaways({"text": often}, labels) == []


def test_a_rare_label_conceals_no_giveaway() -> None:
    texts, labels = topic_rows()
    labels[:5] = ["rare"] * 5
    told = [f"{text} {label}" for text, label in zip(texts, labels, strict=True)]
    (giveaway,) = label_giveaways({"text": told}, labels)
    assert set(giveaway.words) <= set(TOPICS)
    assert not giveaway.is_of_one_label


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["World", "world", "Sports"], [["World", "world"]]),
        (["1", "1.0", "01", "2"], [["01", "1", "1.0"]]),
        (["yes ", "yes"], []),  # white space around a label is no part of it
        (["1.5", "15", "nan", "inf"], []),
        (["not good", "Not-good"], [["Not-good", "not good"]]),
        (["+", "-"], []),
    ],
)
def test_labels_that_differ_in_spelling(labels: list[str], found: list[list[str]]) -> None:
    assert respelled_labels(labels) == found


def test_swapped_pairs() -> None:
    train = [("a cat", "a dog"), ("one", "two"), ("x", "x"), ("p", "q"), ("q", "p")]
    test = [("A dog!", "A cat"), ("one", "two"), ("x", "x"), ("p", "q"), ("cat", "dog")]
    assert swapped_pairs(test, train) == {0: 0}
