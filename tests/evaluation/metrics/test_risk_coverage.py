from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.evaluation.metrics.risk_coverage import (
    area_under_risk_coverage,
    expected_calibration_error,
    operating_point,
    operating_points,
    rank_by_confidence,
    reliability_bins,
    risk_coverage,
    selective_accuracy,
    threshold_for_coverage,
    threshold_for_precision,
)
from regard.evaluation.statistics.intervals import Bootstrap, wilson

FEW_RESAMPLES = Bootstrap(resamples=80)

JUDGED = rank_by_confidence([0.9, 0.8, 0.8, 0.3], [True, False, True, False])

pairs = st.lists(
    st.tuples(st.integers(0, 6).map(lambda x: x / 6), st.booleans()), min_size=1, max_size=6
)


def area(judged):
    return area_under_risk_coverage(judged, split="dev", bootstrap=FEW_RESAMPLES)


def test_risk_coverage_curve_by_hand():
    points = [(p.threshold, p.coverage, p.risk, p.answered) for p in risk_coverage(JUDGED)]
    assert points == [
        (0.9, 0.25, 0, 1),
        (0.8, 0.75, pytest.approx(1 / 3), 3),
        (0.3, 1, 0.5, 4),
    ]


def test_aurc_by_hand():
    # Each of the two at 0.8 counts half: risks 0, ½/2, 1/3, 2/4.
    assert area(JUDGED).value == pytest.approx((0 + 1 / 4 + 1 / 3 + 1 / 2) / 4)


@settings(max_examples=40, deadline=None)
@given(pairs)
def test_aurc_is_the_mean_over_all_orders_of_ties(rows):
    areas = []
    for order in permutations(rows):
        ranked = sorted(order, key=lambda pair: -pair[0])
        incorrect = np.cumsum([not correct for _, correct in ranked])
        areas.append(np.mean(incorrect / np.arange(1, len(rows) + 1)))
    assert area(rank_by_confidence(*zip(*rows, strict=True))).value == pytest.approx(np.mean(areas))


@settings(max_examples=40, deadline=None)
@given(pairs, st.randoms(use_true_random=False))
def test_results_do_not_depend_on_answer_order(rows, random):
    shuffled = random.sample(rows, len(rows))
    first, second = (rank_by_confidence(*zip(*some, strict=True)) for some in (rows, shuffled))
    assert area(first) == area(second)
    assert risk_coverage(first) == risk_coverage(second)
    assert reliability_bins(first) == reliability_bins(second)


def test_aurc_is_small_where_confidence_ranks_correct_answers_first():
    correct = np.arange(100) < 70
    confidence = np.linspace(1, 0, 100)
    good, bad = (area(rank_by_confidence(given, correct)) for given in (confidence, -confidence))
    assert good.value < 0.3 < bad.value
    assert good.low <= good.value <= good.high < bad.low
    # Constant confidence: every risk is the error rate.
    assert area(rank_by_confidence(np.ones(100), correct)).value == pytest.approx(0.3)


def test_one_answer_has_no_aurc_interval():
    assert area(rank_by_confidence([0.5], [True])).no_interval


@given(pairs, st.floats(0.01, 1))
def test_threshold_for_coverage_is_the_highest_that_suffices(rows, coverage):
    judged = rank_by_confidence(*zip(*rows, strict=True))
    threshold = threshold_for_coverage(judged, coverage)
    covered = [p.coverage for p in risk_coverage(judged) if p.threshold >= threshold]
    assert covered[-1] >= coverage - 1e-9
    assert all(fraction < coverage for fraction in covered[:-1])


def test_threshold_for_coverage_tolerates_rounding():
    assert threshold_for_coverage(rank_by_confidence(np.arange(100), [True] * 100), 0.07) == 93


@given(pairs, st.sampled_from([0.5, 2 / 3, 0.9, 1.0]))
def test_threshold_for_precision_has_maximum_coverage(rows, precision):
    judged = rank_by_confidence(*zip(*rows, strict=True))
    threshold = threshold_for_precision(judged, precision)
    precise = [p for p in risk_coverage(judged) if 1 - p.risk >= precision - 1e-12]
    if threshold is None:
        assert not precise
    else:
        assert threshold == min(p.threshold for p in precise)
        assert selective_accuracy(judged, threshold, split="dev").value >= precision - 1e-12


def test_selective_accuracy():
    half = threshold_for_coverage(JUDGED, 0.5)
    estimate = selective_accuracy(JUDGED, half, split="test:1")
    assert (estimate.value, estimate.n) == (pytest.approx(2 / 3), 3)
    assert (estimate.low, estimate.high) == wilson(2, 3)
    assert "|threshold:0.8|coverage:3/4|" in estimate.signature
    assert selective_accuracy(JUDGED, 0.95, split="test:1") is None


def test_expected_calibration_error_by_hand():
    judged = rank_by_confidence([0.95, 0.95, 0.15, 0.0, 1.0], [True, False, False, False, True])
    bins = {(b.low, b.high): (b.n, b.confidence, b.accuracy) for b in reliability_bins(judged)}
    assert bins == {
        (0.0, 0.1): (1, 0.0, 0.0),
        (0.1, 0.2): (1, 0.15, 0.0),
        (0.9, 1.0): (3, pytest.approx(2.9 / 3), pytest.approx(2 / 3)),
    }
    estimate = expected_calibration_error(judged, split="dev")
    assert estimate.value == pytest.approx((0 + 0.15 + (2.9 - 2)) / 5)
    assert estimate.no_interval


@given(pairs)
def test_every_answer_is_in_exactly_one_bin(rows):
    table = reliability_bins(rank_by_confidence(*zip(*rows, strict=True)), bins=7)
    assert sum(one.n for one in table) == len(rows)
    assert all(one.low - 1e-9 <= one.confidence <= one.high + 1e-9 for one in table)


@pytest.mark.parametrize(
    ("confidence", "correct"), [([], []), ([0.1], [True, False]), ([np.nan], [True])]
)
def test_invalid_confidences_raise(confidence, correct):
    with pytest.raises(UserError, match=r"confidence"):
        rank_by_confidence(confidence, correct)


def test_confidence_and_coverage_out_of_range_raise():
    with pytest.raises(UserError, match="between 0 and 1"):
        reliability_bins(rank_by_confidence([2.5], [True]))
    with pytest.raises(UserError, match="not a fraction above 0"):
        threshold_for_coverage(JUDGED, 0)


@given(pairs)
def test_operating_points_are_the_curve_with_intervals(rows):
    judged = rank_by_confidence(*zip(*rows, strict=True))
    points = operating_points(judged, split="dev", items="texts")
    curve = risk_coverage(judged)
    assert [one.threshold for one in points] == [one.threshold for one in curve]
    for point, known in zip(points, curve, strict=True):
        assert point.coverage.value == pytest.approx(known.coverage)
        assert point.risk.value == pytest.approx(known.risk)
        assert (point.coverage.n, point.risk.n) == (len(judged), known.answered)
        wrong = round(known.risk * known.answered)
        assert (point.risk.low, point.risk.high) == pytest.approx(wilson(wrong, known.answered))
        interval = wilson(known.answered, len(judged))
        assert (point.coverage.low, point.coverage.high) == pytest.approx(interval)
        assert point.risk.signature.startswith("risk_answered|split:dev|threshold:")


def test_few_operating_points_keep_both_ends():
    judged = rank_by_confidence(np.arange(50) / 50, [True, False] * 25)
    points = operating_points(judged, split="dev", items="texts", max_points=7)
    assert len(points) == 7
    assert (points[0].threshold, points[-1].threshold) == (0.98, 0.0)
    assert points[-1].coverage.value == 1


def test_an_operating_point_of_groups_is_wider():
    confidence, correct = np.linspace(0, 1, 40), [True] * 20 + [False] * 20
    alone = operating_point(rank_by_confidence(confidence, correct), 0.0, split="dev", items="x")
    grouped = rank_by_confidence(confidence, correct, groups=np.repeat(np.arange(8), 5))
    together = operating_point(grouped, 0.0, split="dev", items="x")
    assert together.risk.value == alone.risk.value == 0.5
    assert together.risk.high - together.risk.low > alone.risk.high - alone.risk.low
    assert (together.risk.groups, alone.risk.groups) == (8, None)
