from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.evaluation.metrics.perplexity import SCORE_UNITS, Perplexity
from regard.evaluation.statistics.baseline_verdict import MIN_ITEMS, difference_verdict
from regard.evaluation.statistics.intervals import Bootstrap

METRIC = Perplexity(split="dev:77abf00d", tokenizer="3f9c21aa", bootstrap=Bootstrap(resamples=400))


verdict_on = partial(difference_verdict, higher_is_better=False)


def table(nll, tokens, sizes=None):
    tokens = np.asarray(tokens)
    return METRIC.statistics(nll, tokens=tokens, bytes=tokens * 4 if sizes is None else sizes)


documents = st.lists(
    st.tuples(st.floats(0.01, 12), st.integers(1, 200), st.integers(1, 900)),
    min_size=2,
    max_size=40,
)


@given(documents)
def test_every_interval_contains_its_value(rows):
    per_token, tokens, spare = (np.array(values) for values in zip(*rows, strict=True))
    for estimate in METRIC.score(table(per_token * tokens, tokens, tokens + spare)).values():
        slack = 1e-9 * estimate.value
        assert estimate.low - slack <= estimate.value <= estimate.high + slack


@given(st.floats(0.01, 12), st.integers(1, 50), st.integers(2, 30))
@settings(max_examples=40, deadline=None)
def test_equal_documents_give_an_interval_of_zero_width(per_token, tokens, n):
    for estimate in METRIC.score(table([per_token * tokens] * n, [tokens] * n)).values():
        assert estimate.high - estimate.low == pytest.approx(0, abs=1e-9 * estimate.value)
        assert estimate.low == pytest.approx(estimate.value)


@given(st.integers(2, 50_000), st.lists(st.integers(1, 300), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_perplexity_of_a_uniform_model_is_its_vocabulary_size(vocabulary, tokens):
    estimates = METRIC.score(table(np.log(vocabulary) * np.array(tokens), tokens))
    assert estimates["perplexity"].value == pytest.approx(vocabulary)
    assert estimates["loss_per_document"].value == pytest.approx(np.log(vocabulary))
    assert estimates["bits_per_byte"].value == pytest.approx(np.log2(vocabulary) / 4)


def test_scores_computed_by_hand():
    estimates = METRIC.score(table([6.0, 2.0], [3, 1], [10, 6]))
    assert estimates["perplexity"].value == pytest.approx(np.exp(8 / 4))
    assert estimates["perplexity_per_byte"].value == pytest.approx(np.exp(8 / 16))
    assert estimates["bits_per_byte"].value == pytest.approx(8 / 16 / np.log(2))
    assert estimates["loss_per_document"].value == pytest.approx((6 / 3 + 2 / 1) / 2)


def test_losses_hold_nats_per_token_of_each_document():
    assert table([6.0, 5.0], [3, 1]).loss.tolist() == [2.0, 5.0]


def test_estimates_have_name_n_and_signature():
    estimates = METRIC.score(table([6.0, 2.0], [3, 1]))
    assert list(estimates) == list(SCORE_UNITS)
    assert all(name == estimate.name and estimate.n == 2 for name, estimate in estimates.items())
    assert estimates["perplexity"].signature.startswith(
        "perplexity|per:token|tokenizer:3f9c21aa|split:dev:77abf00d"
        "|objective:causal|interval:bootstrap-percentile-95%-400-seed0|regard:"
    )


def test_one_document_has_a_reason_instead_of_an_interval():
    estimate = METRIC.score(table([6.0], [3]))["perplexity"]
    assert estimate.low is None
    assert "interval:none" in estimate.signature
    assert "one item" in str(estimate)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_loss_raises_with_document_number(bad):
    with pytest.raises(UserError, match=r"dev:77abf00d: .* document 2 .*(nan|inf)"):
        table([1.0, bad, bad], [1, 1, 1])


def test_empty_documents_raise_with_document_number():
    with pytest.raises(UserError, match="document 3 has no tokens"):
        table([1.0, 1.0, 0.0], [1, 1, 0])
    with pytest.raises(UserError, match="document 1 has no bytes"):
        table([1.0, 1.0], [1, 1], [0, 5])


def test_no_documents_and_mismatched_lengths_raise():
    with pytest.raises(UserError, match="nothing to score"):
        table([], [])
    with pytest.raises(UserError, match=r"2 losses .* 3 counts of tokens"):
        table([1.0, 1.0], [1, 1, 1])


def test_overflowing_perplexity_raises():
    with pytest.raises(UserError, match="1,000 nats a token are too many"):
        METRIC.score(table([1000.0, 1000.0], [1, 1]))


def test_interval_with_an_outlier_is_finite():
    estimate = METRIC.score(table([1.0, 900.0], [1, 1]))["perplexity"]
    assert np.isfinite([estimate.value, estimate.low, estimate.high]).all()


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(-0.2, "better than"), (0.2, "behind"), (0.0, "not distinguishable from")],
)
def test_verdict_against_a_baseline(shift, verdict):
    generator = np.random.default_rng(5)
    tokens = generator.integers(5, 50, 300)
    loss = generator.normal(4, 1, 300)
    noise = generator.normal(0, 0.3, 300)
    baseline = table(loss * tokens, tokens)
    model = table((loss + shift + noise - noise.mean()) * tokens, tokens)
    difference = METRIC.paired_difference(model, baseline)
    ours, theirs = (METRIC.score(losses)["perplexity"] for losses in (model, baseline))
    assert difference.value == pytest.approx(ours.value - theirs.value)
    assert (difference.n, verdict_on(difference)) == (300, verdict)


def test_paired_difference_is_significant_where_intervals_overlap():
    generator = np.random.default_rng(6)
    tokens = np.full(200, 20)
    loss = generator.normal(4, 1, 200)
    model, baseline = table((loss - 0.05) * tokens, tokens), table(loss * tokens, tokens)
    ours, theirs = METRIC.score(model)["perplexity"], METRIC.score(baseline)["perplexity"]
    assert ours.high > theirs.low  # the intervals overlap …
    assert verdict_on(METRIC.paired_difference(model, baseline)) == "better than"


def test_one_document_gives_no_verdict():
    difference = METRIC.paired_difference(table([1.0], [3]), table([9.0], [3]))
    assert verdict_on(difference) == "on too few items to compare with"
    assert "one item" in difference.no_interval


def test_paired_difference_needs_the_same_documents():
    with pytest.raises(UserError, match="not evaluated on the same documents"):
        METRIC.paired_difference(table([1.0, 2.0], [3, 4]), table([1.0, 2.0], [4, 3]))


def test_few_items_give_no_verdict() -> None:
    metric = Perplexity(split="dev", tokenizer="t")

    def verdict(items: int) -> str:
        tokens = np.full(items, 10)
        model = metric.statistics(np.full(items, 20.0), tokens=tokens, bytes=tokens)
        baseline = metric.statistics(np.full(items, 30.0), tokens=tokens, bytes=tokens)
        return verdict_on(metric.paired_difference(model, baseline))

    assert verdict(MIN_ITEMS) == "better than"
    assert verdict(MIN_ITEMS - 1) == "on too few items to compare with"
