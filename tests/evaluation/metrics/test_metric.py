import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from regard.core.errors import UserError
from regard.evaluation.metrics.bleu_and_rouge import SummaryMetric, TranslationMetric
from regard.evaluation.metrics.classification import ClassificationMetric
from regard.evaluation.metrics.metric import build_metric
from regard.evaluation.metrics.question_answering import AnswerMetric
from regard.evaluation.metrics.ranking import RankingMetric
from regard.evaluation.metrics.scoring import paired_difference, score
from regard.evaluation.metrics.similarity import SimilarityMetric
from regard.evaluation.statistics.baseline_verdict import MIN_ITEMS, difference_verdict
from regard.evaluation.statistics.estimate import Estimate
from regard.evaluation.statistics.intervals import Bootstrap

FEW_RESAMPLES = Bootstrap(resamples=80)
SPLIT = "dev:77abf00d"

words = st.lists(
    st.sampled_from(["a", "man", "rode", "the", "old", "red", "horse", "home"]), max_size=7
)
phrases = words.map(" ".join)
fractions = st.floats(0, 1, allow_subnormal=False)

LABELS = ClassificationMetric(("no", "yes", "perhaps"))
ROWS = {
    LABELS: st.fixed_dictionaries(
        {"truth": st.sampled_from(LABELS.labels), "predicted": st.sampled_from(LABELS.labels)}
    ),
    AnswerMetric(): st.fixed_dictionaries(
        {"truths": st.lists(phrases.filter(bool), max_size=2), "predicted": phrases}
    ),
    TranslationMetric(): st.fixed_dictionaries(
        {"truths": st.lists(phrases, min_size=1, max_size=2), "predicted": phrases}
    ),
    SummaryMetric(): st.fixed_dictionaries(
        {"truths": st.lists(phrases.filter(bool), min_size=1, max_size=2), "predicted": phrases}
    ),
    RankingMetric(): st.fixed_dictionaries(
        {"ndcg_at_10": fractions, "recall_at_100": fractions, "mrr": fractions}
    ),
    SimilarityMetric(): st.fixed_dictionaries(
        {"truth": st.integers(0, 5), "predicted": st.floats(-3, 3, allow_subnormal=False)}
    ),
}

tables = st.sampled_from(list(ROWS)).flatmap(
    lambda metric: st.tuples(
        st.just(metric),
        st.lists(ROWS[metric], min_size=1, max_size=8).map(
            lambda rows: [row | {"item": item} for item, row in enumerate(rows)]
        ),
    )
)


@given(tables, st.randoms(use_true_random=False))
def test_score_does_not_depend_on_item_order(table, random):
    metric, rows = table
    shuffled = random.sample(rows, len(rows))
    assert score(metric, shuffled, split=SPLIT, bootstrap=FEW_RESAMPLES) == score(
        metric, rows, split=SPLIT, bootstrap=FEW_RESAMPLES
    )


@given(tables)
def test_score_is_the_score_function_of_the_sums(table):
    metric, rows = table
    sums = metric.statistics(rows).sum(axis=1)
    for estimate in score(metric, rows, split=SPLIT, bootstrap=FEW_RESAMPLES):
        assert estimate.value == pytest.approx(float(metric.score_function(estimate.name)(sums)))
        assert np.isfinite([estimate.value, estimate.low or 0, estimate.high or 0]).all()


@given(tables)
def test_score_functions_broadcast_over_trailing_axes(table):
    metric, rows = table
    statistics = metric.statistics(rows)
    for estimate in score(metric, rows, split=SPLIT, bootstrap=FEW_RESAMPLES):
        many = np.repeat(statistics.sum(axis=1)[:, None, None], 6, axis=1).repeat(2, axis=2)
        values = metric.score_function(estimate.name)(many)
        assert values.shape == (6, 2)
        assert values == pytest.approx(np.full((6, 2), estimate.value))


@given(tables)
def test_paired_difference_of_a_model_with_itself_is_zero(table):
    metric, rows = table
    for score_name in [
        estimate.name for estimate in score(metric, rows, split=SPLIT, bootstrap=FEW_RESAMPLES)
    ]:
        found = paired_difference(
            metric, score_name, rows, rows[::-1], split=SPLIT, bootstrap=FEW_RESAMPLES
        )
        assert found.value == 0
        assert (found.low, found.high) in {(0, 0), (None, None)}
        is_enough = found.n >= MIN_ITEMS
        verdict = "not distinguishable from" if is_enough else "on too few items to compare with"
        assert difference_verdict(found, higher_is_better=True) == verdict


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "clasification", "labels": ["a"]}, "did you mean classification"),
        ({}, "unknown metric"),
        ({"kind": "classification"}, "cannot be built"),
        ({"kind": "answers", "colour": 3}, "cannot be built from colour"),
    ],
)
def test_invalid_metric_settings_raise(settings, message):
    with pytest.raises(UserError, match=message):
        build_metric(settings)


def labelled_rows(correct, n, *, start=0):
    return [
        {"item": start + item, "truth": "yes", "predicted": "yes" if item < correct else "no"}
        for item in range(n)
    ]


def accuracy(rows):
    return score(LABELS, rows, split=SPLIT, bootstrap=FEW_RESAMPLES)[0]


def test_ten_examples_do_not_rank_models():
    """0.9, 0.6 and 0.8 of ten examples were published as a ranking."""
    best, worst, middle = (accuracy(labelled_rows(correct, 10)) for correct in (9, 6, 8))
    assert [estimate.value for estimate in (best, worst, middle)] == [0.9, 0.6, 0.8]
    assert worst.high > best.low
    assert middle.low < worst.value < best.value < middle.high
    difference = paired_difference(
        LABELS, "accuracy", labelled_rows(9, 10), labelled_rows(6, 10), split=SPLIT
    )
    assert difference.value == pytest.approx(0.3)
    assert (
        difference_verdict(difference, higher_is_better=True) == "on too few items to compare with"
    )


def test_proportion_has_wilson_interval_in_its_signature():
    estimate = accuracy(labelled_rows(9, 10))
    assert (estimate.low, estimate.high) == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert "|interval:wilson-95%|" in estimate.signature
    assert f"|split:{SPLIT}|" in estimate.signature


def test_one_item_has_no_bootstrap_interval():
    estimates = {
        estimate.name: estimate
        for estimate in score(LABELS, labelled_rows(1, 1), split=SPLIT, bootstrap=FEW_RESAMPLES)
    }
    assert estimates["macro_f1"].no_interval
    assert estimates["macro_f1"].low is None
    assert estimates["accuracy"].low is not None


def test_interval_from_multiplicities_equals_plain_bootstrap():
    """Sums weighted by multiplicity equal sums of the resampled statistics."""
    rows = [{"ndcg_at_10": x, "recall_at_100": x / 2, "mrr": x**2} for x in np.linspace(0, 1, 30)]
    means = FEW_RESAMPLES.intervals(
        RankingMetric().statistics(rows)[:3], lambda statistics: statistics.mean(axis=-1)
    )
    for estimate, (low, high) in zip(
        score(RankingMetric(), rows, split=SPLIT, bootstrap=FEW_RESAMPLES), means, strict=True
    ):
        assert (estimate.low, estimate.high) == pytest.approx((low, high))


def test_no_rows_raise():
    with pytest.raises(UserError, match="nothing to score"):
        score(LABELS, [], split=SPLIT)


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (labelled_rows(3, 29), "30 texts of ours, 29 of theirs, 29 in both"),
        (labelled_rows(3, 30, start=5), "25 in both"),
        ([row | {"truth": "no"} for row in labelled_rows(3, 30)], "item 0 has another truth"),
        ([{**row, "item": 0} for row in labelled_rows(3, 30)], "number of another"),
        ([{"truth": "yes", "predicted": "no"}] * 30, "no number"),
    ],
)
def test_paired_difference_needs_the_same_items(theirs, message):
    with pytest.raises(UserError, match=message):
        paired_difference(LABELS, "accuracy", labelled_rows(20, 30), theirs, split=SPLIT)


def test_paired_difference_needs_the_same_counted_items():
    ours = [{"item": i, "predicted": "a", "truths": ["a"], "answerable": i > 0} for i in range(3)]
    theirs = [row | {"answerable": row["item"] < 2} for row in ours]
    with pytest.raises(UserError, match=r"questions of ours \(2\) .* theirs \(2\)"):
        paired_difference(AnswerMetric(), "f1_answerable", ours, theirs, split=SPLIT)
    with pytest.raises(UserError, match="counts none"):
        paired_difference(
            AnswerMetric(), "exact_match_unanswerable", ours[1:], ours[1:], split=SPLIT
        )


def test_unknown_score_name_raises_with_suggestion():
    with pytest.raises(UserError, match="did you mean accuracy"):
        paired_difference(
            LABELS, "acuracy", labelled_rows(2, 30), labelled_rows(3, 30), split=SPLIT
        )


def estimate_of(low, high, *, n=MIN_ITEMS):
    middle = None if low is None else (low + high) / 2
    reason = "" if low is not None else "none"
    return Estimate(
        name="x", value=middle or 0.0, low=low, high=high, n=n, items="texts", signature="x",
        no_interval=reason,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("difference", "higher", "lower"),
    [
        (estimate_of(0.1, 0.3), "better than", "behind"),
        (estimate_of(-0.3, -0.1), "behind", "better than"),
        (estimate_of(-0.1, 0.3), "not distinguishable from", "not distinguishable from"),
        (estimate_of(0.0, 0.3), "not distinguishable from", "not distinguishable from"),
        (estimate_of(None, None), "not distinguishable from", "not distinguishable from"),
        (estimate_of(0.1, 0.3, n=MIN_ITEMS - 1), *["on too few items to compare with"] * 2),
    ],
)
def test_difference_verdict(difference, higher, lower):
    assert difference_verdict(difference, higher_is_better=True) == higher
    assert difference_verdict(difference, higher_is_better=False) == lower


def test_difference_over_groups_is_not_narrower_than_the_t_interval_of_group_means():
    correct = np.array([6, *[4] * 18, 0])  # of ten in each of twenty groups
    ours, theirs = (
        [
            {"item": item, "truth": "yes", "predicted": answer, "group": item // 10}
            for item, answer in enumerate(
                "yes" if number < right else "no" for right in rights for number in range(10)
            )
        ]
        for rights in (correct, np.full(20, 4))
    )
    found = paired_difference(LABELS, "accuracy", ours, theirs, split=SPLIT)
    expected = stats.ttest_1samp(correct / 10 - 0.4, 0.0).confidence_interval(0.95)
    assert found.groups == 20
    assert found.low <= expected.low + 1e-9
    assert found.high >= expected.high - 1e-9
