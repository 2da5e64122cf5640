import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.json_records import record_table, restore_record
from regard.evaluation.metrics.metric import Row
from regard.tasks.qa.abstention import (
    CURVE_POINTS,
    NEVER,
    Abstention,
    choose_threshold,
    risk_tables,
)

Answers = list[tuple[int, bool]]
"Confidence in twentieths, and whether the answer is right."

answer_lists = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=60)


def result_rows(answers: Answers) -> list[Row]:
    return [
        {"predicted": "Oslo", "truths": ["Oslo" if right else "Rome"], "confidence": level / 20}
        for level, right in answers
    ]


@given(answer_lists, st.floats(0.01, 1.0))
def test_threshold_for_coverage_is_the_highest_that_reaches_it(
    answers: Answers, coverage: float
) -> None:
    chosen = choose_threshold(result_rows(answers), coverage=coverage, precision=None)
    answered = [right for level, right in answers if chosen.answers(level / 20)]
    assert len(answered) == chosen.answered >= coverage * len(answers) - 1e-6
    assert sum(answered) == chosen.right
    higher = [level for level, _ in answers if level / 20 > chosen.threshold]
    assert len(higher) < coverage * len(answers)


@given(answer_lists, st.floats(0.05, 1.0))
def test_threshold_for_precision_reaches_it_or_answers_nothing(
    answers: Answers, precision: float
) -> None:
    chosen = choose_threshold(result_rows(answers), coverage=0.5, precision=precision)
    if chosen.threshold == NEVER:
        assert chosen.answered == 0
        assert not chosen.answers(1.0)
        assert "no threshold" in chosen.remark()
    else:
        assert chosen.right >= precision * chosen.answered - 1e-9


@given(answer_lists)
def test_json_round_trip_and_every_dev_confidence_has_a_bin(answers: Answers) -> None:
    chosen = choose_threshold(result_rows(answers), coverage=0.5, precision=None)
    assert restore_record(Abstention, json.loads(json.dumps(record_table(chosen)))) == chosen
    for level, _ in answers:
        reliability = chosen.reliability(level / 20)
        assert reliability is not None
        assert reliability.low <= level / 20 <= reliability.high
    assert sum(each.n for each in chosen.bins) == len(answers)


def test_reliability_is_none_where_dev_has_no_such_confidence() -> None:
    chosen = choose_threshold(result_rows([(2, True), (4, False)]), coverage=0.5, precision=None)
    assert chosen.reliability(0.99) is None


def test_curves_are_thinned_and_keep_the_threshold() -> None:
    rows = [
        {"predicted": "Oslo", "truths": ["Oslo"] * (n % 3 > 0), "confidence": n / 1000}
        for n in range(900)
    ]
    chosen = choose_threshold(rows, coverage=0.37, precision=None)
    assert len(chosen.curve) <= CURVE_POINTS
    assert chosen.threshold in {point.threshold for point in chosen.curve}
    tables = risk_tables(rows, threshold=chosen.threshold, split="test")
    assert len(tables["risk_coverage"]) <= CURVE_POINTS
    [accuracy] = [row for row in tables["risk"] if row["metric"] == "accuracy_answered"]
    assert accuracy["value"] == pytest.approx(chosen.right / chosen.answered)
    assert accuracy["low"] < accuracy["value"] < accuracy["high"]
