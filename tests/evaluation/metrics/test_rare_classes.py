"""Intervals of macro-F1 and MCC where a class has few items, or none."""

import numpy as np
import pytest
from benchmarks.calibration.rare_classes import coverage, verdict_error

from regard.evaluation.metrics.classification import MIN_ITEMS, ClassificationMetric
from regard.evaluation.metrics.scoring import score

METRIC = ClassificationMetric(("ham", "spam"))


def rows_of(*cells):
    """Rows of (truth, predicted, how many)."""
    pairs = [pair for truth, predicted, count in cells for pair in [(truth, predicted)] * count]
    return [
        {"item": item, "truth": truth, "predicted": predicted}
        for item, (truth, predicted) in enumerate(pairs)
    ]


def estimates(rows, metric=METRIC):
    return {one.name: one for one in score(metric, rows, split="test")}


@pytest.mark.parametrize(
    ("fractions", "recalls"),
    [
        ((0.97, 0.03), (0.98, 0.9)),
        ((0.97, 0.03), (0.95, 0.1)),
        ((0.6, 0.37, 0.03), (0.98, 0.9)),
        ((0.4, 0.3, 0.2, 0.07, 0.03), (0.98, 0.9)),
    ],
)
def test_intervals_of_30_items_with_a_rare_class_cover(fractions, recalls):
    ours, by_bootstrap, without = coverage(fractions, recalls, 30, 120)
    # Where the true coverage is 97 %, the sampling error of 60 samples is 2.2 %.
    assert min(ours.values()) >= 0.9
    assert min(by_bootstrap.values()) < 0.75
    assert 0.2 < without < 0.7


def test_one_item_that_is_correct_proves_little():
    found = estimates(rows_of(("ham", "ham", 29), ("spam", "spam", 1)))
    assert found["macro_f1"].value == 1
    assert found["macro_f1"].low < 0.6
    assert found["macro_f1"].high == 1
    assert found["mcc"].low < 0.3
    assert "smoothed" in found["macro_f1"].signature
    assert "smoothed" not in found["accuracy"].signature


def test_interval_holds_the_value_and_stays_within_bounds():
    generator = np.random.default_rng(0)
    for _ in range(30):
        counts = generator.integers(1, [30, 4, 4, 4])
        labels = [(t, p) for t in METRIC.labels for p in METRIC.labels]
        found = estimates(
            rows_of(*((*pair, count) for pair, count in zip(labels, counts, strict=True)))
        )
        for name, lowest in (("macro_f1", 0), ("mcc", -1)):
            assert lowest <= found[name].low <= found[name].value <= found[name].high <= 1


def test_with_enough_items_of_each_label_it_is_the_bootstrap():
    enough = rows_of(("ham", "ham", 60), ("spam", "spam", MIN_ITEMS - 5), ("spam", "ham", 5))
    assert "smoothed" not in estimates(enough)["macro_f1"].signature
    assert "smoothed" in estimates(enough[:-1])["macro_f1"].signature


def test_a_label_that_no_item_has_leaves_no_interval():
    rows = rows_of(("ham", "ham", 28), ("ham", "spam", 2))
    found = estimates(rows)
    for name in ("macro_f1", "mcc"):
        assert (found[name].low, found[name].high) == (None, None)
        assert "spam" in found[name].no_interval
    assert found["accuracy"].low is not None
    many = ClassificationMetric(("ham", *"abcde"))
    reason = estimates([row | {"predicted": "ham"} for row in rows], many)["mcc"].no_interval
    assert "a, b, c and 2 more" in reason


def test_groups_of_items_are_weighted_whole():
    rows = rows_of(("ham", "ham", 190), ("spam", "spam", 6), ("spam", "ham", 4))
    alone = estimates(rows)["macro_f1"]
    grouped = estimates([row | {"group": f"g{row['item'] % 20}"} for row in rows])["macro_f1"]
    assert grouped.groups == 20
    assert "smoothed" in grouped.signature
    assert grouped.value == alone.value
    assert grouped.low < grouped.value < grouped.high


def test_differences_over_few_items_of_a_label_are_doubted():
    few = METRIC.statistics(rows_of(("ham", "ham", 90), ("spam", "ham", 3)))
    enough = METRIC.statistics(rows_of(("ham", "ham", 90), ("spam", "ham", MIN_ITEMS)))
    for name in ("macro_f1", "mcc"):
        assert "3 of 93 texts have the label spam" in METRIC.doubt(name, few)
        assert METRIC.doubt(name, enough) == ""
    assert METRIC.doubt("accuracy", few) == ""


def test_two_methods_that_err_on_different_labels_are_why():
    # Of 1,000 simulated studies 15 % and 6 % (docs/studies/calibration.md).
    assert verdict_error(100, 1, 300) > 0.09
    assert verdict_error(1000, 1, 300) < 0.1
