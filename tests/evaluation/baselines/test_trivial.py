"""Trivial baselines: majority, no answer, copied source, lead sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wording import says

from regard.core.errors import UserError
from regard.evaluation.baselines.sentences import sentences
from regard.evaluation.baselines.trivial import (
    always_no_answer,
    copy_source,
    lead_sentence,
    majority_label,
    most_frequent_answer,
)
from regard.evaluation.health.predictions import prediction_health

LABELS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1)


def test_majority_class_of_boolq_is_flagged() -> None:
    truth = [True] * 2033 + [False] * 1237
    predicted = majority_label([True] * 5874 + [False] * 3553, len(truth))
    assert sum(one == other for one, other in zip(predicted, truth, strict=True)) == 2033
    [flag] = prediction_health(predicted, truth)
    assert says(flag, "62.17 %", "exactly", "majority class")


@given(LABELS, st.randoms())
def test_majority_label_is_most_frequent_in_any_order(labels: list[str], random) -> None:
    [predicted] = majority_label(labels, 1)
    assert all(labels.count(predicted) >= labels.count(other) for other in labels)
    random.shuffle(labels)
    assert majority_label(labels, 3) == [predicted] * 3


def test_ties_go_to_the_first_label_by_name() -> None:
    assert majority_label(["no", "yes", "yes", "no"], 1) == ["no"]
    assert majority_label([2, 1], 2) == [1, 1]


def test_most_frequent_answer_is_stripped() -> None:
    assert most_frequent_answer(["Paris", "London\n", " London"], 2) == ["London", "London"]


def test_no_training_rows_raise() -> None:
    with pytest.raises(UserError, match="no training row"):
        majority_label([], 3)


def test_no_answer_and_copied_source() -> None:
    assert always_no_answer(2) == ["", ""]
    assert copy_source(iter(["Ein Hund.", ""])) == ["Ein Hund.", ""]


def test_lead_sentence_of_texts_and_sentence_lists() -> None:
    documents = ["Dr. Birt hikes. She\nlikes it.", ["", "First, e.g. this.", "Second."], "", []]
    assert lead_sentence(documents) == ["Dr. Birt hikes.", "First, e.g. this.", "", ""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Dr. J. Birt left at 3.5 p.m. He was tired.",
            ["Dr. J. Birt left at 3.5 p.m.", "He was tired."],
        ),
        ("The U.S. Army came. It left.", ["The U.S. Army came.", "It left."]),
        ("See Fig. 3. It rises.", ["See Fig. 3.", "It rises."]),
        ("He said no. Then he left.", ["He said no.", "Then he left."]),
        ("It is I. You know me.", ["It is I.", "You know me."]),
        ("As Vaswani et al. 2017 say, it works.", ["As Vaswani et al. 2017 say, it works."]),
        (
            "“Really?” she said. ‘Yes!’ He ran.",
            ["“Really?” she said.", "‘Yes!’", "He ran."],
        ),
        ("Version 2.13 is out! Try it…  Now", ["Version 2.13 is out!", "Try it…", "Now"]),
        ("A title\n\nand a text", ["A title", "and a text"]),
        ("一つ。二つ！", ["一つ。", "二つ！"]),
        (" \n\t", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet="aBI .!?\n\"'3。", max_size=60))
def test_sentences_keep_all_characters_but_white_space(text: str) -> None:
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in found)
