import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.metrics.metric import Row
from regard.tasks.qa.abstention import (
    CURVE_POINTS,
    NEVER,
    Abstention,
    choose_threshold,
    risk_tables,
)

answers = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=60)


def rows_of(told: list[tuple[int, bool]]) -> list[Row]:
    return [
        {"predicted": "Oslo", "truths": ["Oslo" if right else "Rome"], "confidence": sure / 20}
        for sure, right in told
    ]


@given(answers, st.floats(0.01, 1.0))
def test_a_threshold_for_coverage_answers_that_share_and_no_higher_one_does(
    told: list[tuple[int, bool]], coverage: float
) -> None:
    chosen = choose_threshold(rows_of(told), coverage=coverage, precision=None)
    given_answers = [right for sure, right in told if chosen.answers(sure / 20)]
    assert len(given_answers) == chosen.answered >= coverage * len(told) - 1e-6
    assert sum(given_answers) == chosen.right
    higher = [sure for sure, _ in told if sure / 20 > chosen.threshold]
    assert len(higher) < coverage * len(told)


@given(answers, st.floats(0.05, 1.0))
def test_a_threshold_for_precision_keeps_it_or_answers_nothing(
    told: list[tuple[int, bool]], precision: float
) -> None:
    chosen = choose_threshold(rows_of(told), coverage=0.5, precision=precision)
    if chosen.threshold == NEVER:
        assert chosen.answered == 0
        assert not chosen.answers(1.0)
        assert "no threshold" in chosen.remark()
    else:
        assert chosen.right >= precision * chosen.answered - 1e-9


@given(answers)
def test_it_survives_json_and_each_answer_of_dev_finds_its_like(
    told: list[tuple[int, bool]],
) -> None:
    chosen = choose_threshold(rows_of(told), coverage=0.5, precision=None)
    assert Abstention.from_dict(json.loads(json.dumps(chosen.as_dict()))) == chosen
    for sure, _ in told:
        alike = chosen.as_sure(sure / 20)
        assert alike is not None
        assert alike.low <= sure / 20 <= alike.high
    assert sum(one.n for one in chosen.bins) == len(told)


def test_no_answer_of_dev_was_as_sure() -> None:
    chosen = choose_threshold(rows_of([(2, True), (4, False)]), coverage=0.5, precision=None)
    assert chosen.as_sure(0.99) is None


def test_curves_are_thinned_and_keep_the_threshold() -> None:
    told = [
        {"predicted": "Oslo", "truths": ["Oslo"] * (n % 3 > 0), "confidence": n / 1000}
        for n in range(900)
    ]
    chosen = choose_threshold(told, coverage=0.37, precision=None)
    assert len(chosen.curve) <= CURVE_POINTS
    assert chosen.threshold in {point.threshold for point in chosen.curve}
    tables = risk_tables(told, threshold=chosen.threshold, split="test")
    assert len(tables["risk_coverage"]) <= CURVE_POINTS
    [answered] = [one for one in tables["risk"] if one["metric"] == "accuracy_answered"]
    assert answered["value"] == pytest.approx(chosen.right / chosen.answered)
    assert answered["low"] < answered["value"] < answered["high"]
