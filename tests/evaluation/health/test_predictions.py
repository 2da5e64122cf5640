"""Constant predictions are flagged, with the counts of BoolQ's dev set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wording import says

from regard.core.errors import UserError
from regard.evaluation.health.predictions import collapse_warning, prediction_health

TRUE, ALL = 2033, 3270
BOOLQ = [True] * TRUE + [False] * (ALL - TRUE)


def test_majority_class_of_boolq() -> None:
    [flag] = prediction_health([True] * ALL, BOOLQ)
    assert says(flag, "62.17 %", "exactly", "majority class", "True", "3,270 of 3,270")


def test_constant_other_than_the_majority() -> None:
    [flag] = prediction_health([False] * ALL, BOOLQ)
    assert says(flag, "37.83 %", "one label", "False", "3,270 of 3,270")
    assert "majority" not in flag


def test_nearly_constant_predictions() -> None:
    [flag] = prediction_health([False] * 30 + [True] * (ALL - 30), BOOLQ)
    assert says(flag, "hardly vary", "True", "3,240 of 3,270", "true of 2,033")


def test_majority_accuracy_with_varied_predictions_is_flagged_on_many_items_only() -> None:
    mixed = [False, True] * 600 + BOOLQ[1200:]
    shift = sum(one == other for one, other in zip(mixed, BOOLQ, strict=True)) - TRUE
    predicted = [not one if i >= ALL - shift else one for i, one in enumerate(mixed)]
    assert sum(one == other for one, other in zip(predicted, BOOLQ, strict=True)) == TRUE
    [flag] = prediction_health(predicted, BOOLQ)
    assert "2,033 of 3,270" in flag
    assert "though 2 labels are predicted" in flag
    few = ["a", "a", "a", "b", "b"]
    assert prediction_health(["a", "a", "b", "b", "a"], few) == ()


def test_informative_predictions_are_healthy() -> None:
    generator = np.random.default_rng(0)
    predicted = [one if generator.random() < 0.75 else not one for one in BOOLQ]
    assert prediction_health(predicted, BOOLQ) == ()
    assert prediction_health(BOOLQ, BOOLQ) == ()


def test_collapse_warning() -> None:
    majority, other = (collapse_warning([label] * ALL, BOOLQ) for label in (True, False))
    assert says(majority, "all 3,270 rows", "True", "the majority class", "62.2 %")
    assert says(other, "all 3,270 rows", "False", "one class", "37.8 %")
    assert collapse_warning([True] * (ALL - 1) + [False], BOOLQ).startswith(
        "all but 1 of 3,270 rows are"
    )
    assert not collapse_warning([True] * (ALL - 13) + [False] * 13, BOOLQ)  # a hundredth of 1,237
    assert not collapse_warning(["a"] * 9, ["a"] * 9)  # one label only: nothing to distinguish
    assert not collapse_warning(["a"] * 9, ["a"] * 5 + ["b"] * 4)  # four others may be chance
    assert collapse_warning(["a"] * 9, ["a"] * 4 + ["b"] * 5)


def test_one_label_only() -> None:
    [flag] = prediction_health(["yes", "yes"], ["yes", "yes"])
    assert says(flag, "all 2 labels", "'yes'", "accuracy says nothing")


@pytest.mark.parametrize(("predictions", "labels"), [([], []), ([1], [1, 2])])
def test_mismatched_lengths_raise(predictions: list[int], labels: list[int]) -> None:
    with pytest.raises(UserError, match="do not match"):
        prediction_health(predictions, labels)


@given(st.lists(st.integers(0, 3), min_size=2), st.integers(0, 3))
def test_constant_predictions_are_always_flagged(labels: list[int], constant: int) -> None:
    assert prediction_health([constant] * len(labels), labels)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1), st.randoms())
def test_flags_do_not_depend_on_item_order(pairs: list[tuple[int, int]], random) -> None:
    def flags() -> tuple[str, ...]:
        return prediction_health([one for one, _ in pairs], [other for _, other in pairs])

    before = flags()
    random.shuffle(pairs)
    assert len(flags()) == len(before)
