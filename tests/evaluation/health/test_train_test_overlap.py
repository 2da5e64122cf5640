"""Evaluated inputs that occur in train too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.health.train_test_overlap import train_test_overlap

TEXTS = st.lists(st.sampled_from(["a", "A", "a b", "a  B", "c"]))


def test_overlap_ignores_white_space_and_case() -> None:
    found = train_test_overlap(
        iter(["A good  film", "dull", "dull"]),
        ["a good film\n", "Dull", "a good film!", "dull"],
        train_labels=["pos", "neg", "pos"],
        evaluated_labels=["neg", "neg", "pos", "pos"],
    )
    assert (found.count, found.n, found.same_label) == (3, 4, 2)
    assert found.examples == ("a good film\n", "Dull", "dull")
    assert found.sentence("test") == (
        "3 of 4 test inputs (75.0 %) are in train too, 2 of them with the same label"
    )


def test_pairs_overlap_where_both_sides_do() -> None:
    found = train_test_overlap([("a", "b")], [("A", "B "), ("b", "a"), ("a b", "")])
    assert (found.count, found.same_label) == (1, None)
    assert found.sentence("dev") == "1 of 3 dev inputs (33.3 %) is in train too"


def test_no_overlap_and_no_inputs() -> None:
    assert (
        train_test_overlap(["a"], ["b"]).sentence("dev") == "none of the 1 dev inputs is in train"
    )
    assert train_test_overlap(["a"], []).fraction == 0.0


@given(TEXTS, TEXTS)
def test_overlap_equals_counting_by_hand(train: list[str], evaluated: list[str]) -> None:
    def same(one: str, other: str) -> bool:
        return one.lower().split() == other.lower().split()

    found = train_test_overlap(train, evaluated, train_labels=train, evaluated_labels=evaluated)
    assert found.count == sum(any(same(one, other) for other in train) for one in evaluated)
    assert found.same_label == sum(one in train for one in evaluated)
    assert len(found.examples) == min(found.count, 5)


def test_mismatched_labels_raise() -> None:
    with pytest.raises(ValueError, match="shorter"):
        train_test_overlap(["a", "b"], ["a"], train_labels=[1], evaluated_labels=[1])
