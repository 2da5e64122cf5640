import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.evaluation.metrics.question_answering import (
    AnswerMetric,
    best_threshold,
    exact_match_and_f1,
    normalise_answer,
    should_answer,
)
from regard.evaluation.metrics.scoring import score
from regard.evaluation.statistics.intervals import Bootstrap

FEW_RESAMPLES = Bootstrap(resamples=80)


def test_normalise_answer():
    assert normalise_answer("  The  Tower, of\nLondon! ") == "tower of london"
    assert normalise_answer("an apple a day; theatre") == "apple day theatre"


@pytest.mark.parametrize(
    ("predicted", "truths", "expected"),
    [
        ("The Tower", ["tower"], (1, 1)),
        ("Tower of London", ["Tower Bridge", "London"], (0, 2 * 1 / (3 + 1))),
        ("big big cat", ["big cat"], (0, 2 * 2 / (3 + 2))),
        ("Paris", ["London"], (0, 0)),
        ("", [], (1, 1)),
        ("Paris", [], (0, 0)),
        ("", ["Paris"], (0, 0)),
        # Normalisation empties these; they are answers nevertheless.
        ("the", [], (0, 0)),
        ("%", ["%"], (1, 1)),
        ("%", ["$"], (0, 0)),
    ],
)
def test_exact_match_and_f1_of_one_answer(predicted, truths, expected):
    assert exact_match_and_f1(predicted, truths) == pytest.approx(expected)


ROWS = [
    {"predicted": "Rome", "truths": ["Rome"]},
    {"predicted": "in Rome", "truths": ["Rome"]},
    {"predicted": "", "truths": ["Rome"]},
    {"predicted": "", "truths": []},
    {"predicted": "Rome", "truths": ["Rome"], "answerable": False},
]


def test_scores_by_answerable_have_their_own_n():
    found = {
        f.name: (f.value, f.n)
        for f in score(AnswerMetric(), ROWS, split="dev", bootstrap=FEW_RESAMPLES)
    }
    assert found == {
        "exact_match": (2 / 5, 5),
        "f1": (pytest.approx((1 + 2 / 3 + 0 + 1 + 0) / 5), 5),
        "exact_match_answerable": (pytest.approx(1 / 3), 3),
        "f1_answerable": (pytest.approx((1 + 2 / 3) / 3), 3),
        "exact_match_unanswerable": (1 / 2, 2),
    }


def test_score_without_items_is_omitted():
    names = [
        estimate.name
        for estimate in score(AnswerMetric(), ROWS[:3], split="dev", bootstrap=FEW_RESAMPLES)
    ]
    assert "exact_match_unanswerable" not in names
    assert "exact_match_answerable" in names
    none = [
        estimate.name
        for estimate in score(AnswerMetric(), ROWS[3:], split="dev", bootstrap=FEW_RESAMPLES)
    ]
    assert none == ["exact_match", "f1", "exact_match_unanswerable"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"predicted": "a", "truths": [], "answerable": True}, "answerable, but without a truth"),
        ({"predicted": "a", "truths": "Rome"}, "not a list of texts"),
        ({"predicted": None, "truths": []}, "predicted is None, not a text"),
    ],
)
def test_invalid_rows_raise(row, message):
    with pytest.raises(UserError, match=message):
        AnswerMetric().statistics([row])


scored = st.lists(
    st.tuples(
        st.integers(-40, 40).map(lambda x: x / 8),
        st.integers(-40, 40).map(lambda x: x / 8),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from([0.0, 1.0]),
    ),
    min_size=1,
    max_size=25,
)


def f1_at(tau, null, best, answered, silent):
    return float(np.where(should_answer(null, best, tau), answered, silent).mean())


@given(scored, st.floats(-12, 12))
def test_best_threshold_maximises_f1(rows, other):
    scores = [np.array(values) for values in zip(*rows, strict=True)]
    tau, f1, curve = best_threshold(*scores)
    assert f1 == pytest.approx(f1_at(tau, *scores))
    assert f1_at(other, *scores) <= f1 + 1e-12
    assert curve == sorted(curve)
    for tried, value in curve:
        assert value == pytest.approx(f1_at(tried, *scores))


@given(scored, st.randoms(use_true_random=False))
def test_best_threshold_does_not_depend_on_question_order(rows, random):
    mixed = random.sample(rows, len(rows))
    first, second = (best_threshold(*zip(*some, strict=True)) for some in (rows, mixed))
    assert first.tau == second.tau


def test_best_threshold_computed_by_hand():
    # Margins 3, 1, −1: the first two have answers and are right, the third has none.
    tau, f1, curve = best_threshold([0, 0, 0], [3, 1, -1], [1, 1, 0], [0, 0, 1])
    assert (tau, f1) == (0, 1)
    assert curve == [(-2, pytest.approx(2 / 3)), (0, 1), (2, pytest.approx(2 / 3)), (4, 1 / 3)]


def test_ties_go_to_the_threshold_nearest_zero():
    assert best_threshold([0, 0], [5, 2], [1, 1], [1, 1]).tau == 1
    assert best_threshold([0, 0], [1, -1], [0, 0], [0, 0]).tau == 0
    # A tie of ±1 goes to the lower.
    assert best_threshold([0], [0], [1], [1]).tau == -1


@pytest.mark.parametrize(
    "scores", [([], [], [], []), ([1], [1, 2], [1], [1]), ([0], [np.nan], [1], [1])]
)
def test_invalid_threshold_scores_raise(scores):
    with pytest.raises(UserError, match=r"threshold|finite"):
        best_threshold(*scores)
