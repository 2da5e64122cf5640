import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.evaluation.metrics.classification import ClassificationMetric

LABELS = ("cat", "dog", "eel", "fox")
METRIC = ClassificationMetric(LABELS)


def value(score_name, truths, predicted, metric=METRIC):
    rows = [{"truth": t, "predicted": p} for t, p in zip(truths, predicted, strict=True)]
    return float(metric.score_function(score_name)(metric.statistics(rows).sum(axis=1)))


@given(
    st.lists(
        st.tuples(st.sampled_from([*LABELS, "unseen"]), st.sampled_from(LABELS)),
        min_size=1,
        max_size=30,
    )
)
@pytest.mark.filterwarnings("ignore:A single label was found")
def test_scores_equal_scikit_learn(pairs):
    truths, predicted = map(list, zip(*pairs, strict=True))
    assert value("accuracy", truths, predicted) == pytest.approx(
        sklearn.metrics.accuracy_score(truths, predicted)
    )
    assert value("mcc", truths, predicted) == pytest.approx(
        sklearn.metrics.matthews_corrcoef(truths, predicted), abs=1e-12
    )
    assert value("macro_f1", truths, predicted) == pytest.approx(
        sklearn.metrics.f1_score(
            truths, predicted, labels=sorted(set(truths)), average="macro", zero_division=0
        )
    )


def test_scores_computed_by_hand():
    truths = ["cat", "cat", "cat", "dog"]
    predicted = ["cat", "cat", "dog", "dog"]
    assert value("accuracy", truths, predicted) == 0.75
    # cat: 2·2 / (2 + 3), dog: 2·1 / (2 + 1)
    assert value("macro_f1", truths, predicted) == pytest.approx((4 / 5 + 2 / 3) / 2)
    # tp 2, tn 1, fp 0, fn 1 for cat: (2·1 − 0·1) / √(2·3·1·2)
    assert value("mcc", truths, predicted) == pytest.approx(2 / 12**0.5)


def test_majority_class_has_accuracy_but_zero_mcc():
    """BoolQ's dev set: 2,033 of 3,270 are true, and a collapsed model predicts true every time."""
    boolq = ClassificationMetric(("true", "false"))
    truths = ["true"] * 2033 + ["false"] * 1237
    assert value("accuracy", truths, ["true"] * 3270, boolq) == pytest.approx(0.6217, abs=1e-4)
    assert value("mcc", truths, ["true"] * 3270, boolq) == 0


def test_truth_outside_the_labels_is_an_error_and_in_the_signature():
    rows = [{"truth": "owl", "predicted": "cat"}, {"truth": "cat", "predicted": "cat"}]
    assert value("accuracy", ["owl", "cat"], ["cat", "cat"]) == 0.5
    assert METRIC.facts("accuracy", rows) == {"labels": 4, "truths_of_no_label": 1}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"truth": "cat", "predicted": "dgo"},
            "item at position 1: predicted 'dgo' is not a label",
        ),
        ({"truth": "cat", "predicted": 3}, "predicted is 3, not a text"),
        ({"item": 7, "predicted": "cat"}, "item 7: there is no truth; it has item, predicted"),
    ],
)
def test_invalid_rows_raise_with_item(row, message):
    with pytest.raises(UserError, match=message):
        METRIC.statistics([row])


@pytest.mark.parametrize("labels", [(), ("a", "a")])
def test_empty_or_duplicate_labels_raise(labels):
    with pytest.raises(UserError, match="labels"):
        ClassificationMetric(labels)
