"""Lessons on attention by hand: checks pass for other parameters and seeds."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.lesson_checks import assert_checks_pass

from regard.lessons.topics.by_hand.averages import optimised_query
from regard.lessons.unscaled_attention import (
    attend_unscaled,
    orthonormal_rows,
    separated_keys,
    unscaled_scores,
    unscaled_weights,
)

seeds = st.integers(0, 999_999)
few_examples = settings(max_examples=8, deadline=None)


@few_examples
@given(beta=st.floats(0.1, 20))
def test_argmax_by_hand(beta: float):
    assert_checks_pass("argmax-by-hand", beta=beta)


@few_examples
@given(st.floats(1, 200), st.integers(2, 64), st.integers(2, 64), seeds)
def test_copying(beta: float, keys: int, width: int, seed: int):
    assert_checks_pass("copying", beta=beta, keys=keys, width=width, seed=seed)


@few_examples
@given(scale=st.floats(1, 1e6))
def test_select_and_identity(scale: float):
    assert_checks_pass("select-and-identity", scale=scale)


@settings(max_examples=3, deadline=None)
@given(factor=st.floats(0.1, 10_000))
def test_averaging(factor: float):
    assert_checks_pass("averaging", factor=factor)


@few_examples
@given(st.floats(1, 50), st.integers(3, 64), seeds)
def test_average_of_two(beta: float, keys: int, seed: int):
    assert_checks_pass("average-of-two", beta=beta, keys=keys, seed=seed)


@few_examples
@given(st.integers(4, 32), st.integers(1, 2), st.floats(5, 90), seeds)
def test_extracting(width: int, inside: int, angle: float, seed: int):
    assert_checks_pass("extracting", width=width, inside=inside, angle=angle, seed=seed)


@few_examples
@given(st.floats(10, 500), st.floats(0, 0.01), st.integers(3, 32), seeds)
def test_two_heads(beta: float, alpha: float, keys: int, seed: int):
    assert_checks_pass("two-heads", beta=beta, alpha=alpha, keys=keys, seed=seed)


@few_examples
@given(st.floats(1, 20), st.integers(4, 32), seeds)
def test_self_attention_by_hand(beta: float, width: int, seed: int):
    assert_checks_pass("self-attention-by-hand", beta=beta, width=width, seed=seed)


@few_examples
@given(st.integers(2, 12), st.integers(1, 4), st.integers(2, 32), seeds)
def test_shared_projections(positions: int, heads: int, width: int, seed: int):
    assert_checks_pass(
        "shared-projections", positions=positions, heads=heads, width=width, seed=seed
    )


@few_examples
@given(st.integers(1, 8), st.integers(1, 64), st.integers(1, 8), st.integers(1, 32), seeds)
def test_multi_head_shapes(batch: int, length: int, heads: int, width: int, seed: int):
    assert_checks_pass(
        "multi-head-shapes", batch=batch, length=length, heads=heads, width=width, seed=seed
    )


@settings(max_examples=3, deadline=None)
@given(st.integers(16, 64), st.integers(200, 400), seeds)
def test_scaling(keys: int, queries: int, seed: int):
    assert_checks_pass("scaling", keys=keys, queries=queries, seed=seed)


@few_examples
@given(st.integers(1, 3), st.integers(1, 4), seeds)
def test_receptive_field(heads: int, layers: int, seed: int):
    assert_checks_pass("receptive-field", heads=heads, layers=layers, seed=seed)


def test_unscaled_attention_has_no_root():
    q, keys = torch.tensor([1.0, 2.0]).double(), torch.tensor([[3.0, 0.0], [0.0, 1.0]]).double()
    assert unscaled_scores(q, keys).tolist() == pytest.approx([3.0, 2.0])
    weights = unscaled_weights(q, keys)
    assert weights.tolist() == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1))])
    assert attend_unscaled(q, keys, keys).out.tolist() == pytest.approx((weights @ keys).tolist())


@few_examples
@given(st.integers(1, 8), st.integers(0, 8), seeds)
def test_orthonormal_rows(count: int, extra: int, seed: int):
    rows = orthonormal_rows(count, count + extra, seed=seed)
    assert torch.allclose(rows @ rows.T, torch.eye(count, dtype=torch.float64), atol=1e-12)


@few_examples
@given(st.integers(1, 20), st.integers(2, 8), seeds)
def test_separated_keys_have_unit_length_and_differ(count: int, width: int, seed: int):
    keys = separated_keys(count, width, seed=seed)
    gram = keys @ keys.T
    assert torch.allclose(gram.diagonal(), torch.ones(count, dtype=torch.float64))
    assert (gram - torch.eye(count, dtype=torch.float64)).max() < 0.9999


@few_examples
@given(seeds)
def test_optimised_query_averages_any_pair(seed: int):
    keys = orthonormal_rows(3, 3, seed=seed)
    target = torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64)
    query = optimised_query(keys, target, length=60.0)
    assert float(query.norm()) == pytest.approx(60.0)
    assert float((unscaled_weights(query, keys) - target).abs().max()) < 1e-3
