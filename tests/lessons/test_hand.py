"""Attention by hand: the algebra holds for other sizes, seeds and factors."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.holding import holds

from regard.lessons.by_hand import look_up, orthonormal, scores_of, spread_keys, weights_of
from regard.lessons.topics.by_hand.averages import better_query

seeds = st.integers(0, 999_999)
few = settings(max_examples=8, deadline=None)


@few
@given(beta=st.floats(0.1, 20))
def test_argmax_by_hand(beta: float):
    holds("argmax-by-hand", beta=beta)


@few
@given(st.floats(1, 200), st.integers(2, 64), st.integers(2, 64), seeds)
def test_copying(beta: float, keys: int, width: int, seed: int):
    holds("copying", beta=beta, keys=keys, width=width, seed=seed)


@few
@given(scale=st.floats(1, 1e6))
def test_select_and_identity(scale: float):
    holds("select-and-identity", scale=scale)


@settings(max_examples=3, deadline=None)
@given(factor=st.floats(0.1, 10_000))
def test_averaging(factor: float):
    holds("averaging", factor=factor)


@few
@given(st.floats(1, 50), st.integers(3, 64), seeds)
def test_average_of_two(beta: float, keys: int, seed: int):
    holds("average-of-two", beta=beta, keys=keys, seed=seed)


@few
@given(st.integers(4, 32), st.integers(1, 2), st.floats(5, 90), seeds)
def test_extracting(width: int, inside: int, angle: float, seed: int):
    holds("extracting", width=width, inside=inside, angle=angle, seed=seed)


@few
@given(st.floats(10, 500), st.floats(0, 0.01), st.integers(3, 32), seeds)
def test_two_heads(beta: float, alpha: float, keys: int, seed: int):
    holds("two-heads", beta=beta, alpha=alpha, keys=keys, seed=seed)


@few
@given(st.floats(1, 20), st.integers(4, 32), seeds)
def test_self_attention(beta: float, width: int, seed: int):
    holds("self-attention-by-hand", beta=beta, width=width, seed=seed)


@few
@given(st.integers(2, 12), st.integers(1, 4), st.integers(2, 32), seeds)
def test_shared_projections(positions: int, heads: int, width: int, seed: int):
    holds("shared-projections", positions=positions, heads=heads, width=width, seed=seed)


@few
@given(st.integers(1, 8), st.integers(1, 64), st.integers(1, 8), st.integers(1, 32), seeds)
def test_shapes(batch: int, length: int, heads: int, width: int, seed: int):
    holds("multi-head-shapes", batch=batch, length=length, heads=heads, width=width, seed=seed)


@settings(max_examples=3, deadline=None)
@given(st.integers(16, 64), st.integers(200, 400), seeds)
def test_scaling(keys: int, queries: int, seed: int):
    holds("scaling", keys=keys, queries=queries, seed=seed)


@few
@given(st.integers(1, 3), st.integers(1, 4), seeds)
def test_receptive_field(heads: int, layers: int, seed: int):
    holds("receptive-field", heads=heads, layers=layers, seed=seed)


def test_on_paper_there_is_no_root():
    q, keys = torch.tensor([1.0, 2.0]).double(), torch.tensor([[3.0, 0.0], [0.0, 1.0]]).double()
    assert scores_of(q, keys).tolist() == pytest.approx([3.0, 2.0])
    weights = weights_of(q, keys)
    assert weights.tolist() == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1))])
    assert look_up(q, keys, keys).out.tolist() == pytest.approx((weights @ keys).tolist())


@few
@given(st.integers(1, 8), st.integers(0, 8), seeds)
def test_orthonormal_is(count: int, more: int, seed: int):
    found = orthonormal(count, count + more, seed=seed)
    assert torch.allclose(found @ found.T, torch.eye(count, dtype=torch.float64), atol=1e-12)


@few
@given(st.integers(1, 20), st.integers(2, 8), seeds)
def test_spread_keys_are_of_one_length_and_not_the_same(count: int, width: int, seed: int):
    gram = spread_keys(count, width, seed=seed)
    gram = gram @ gram.T
    assert torch.allclose(gram.diagonal(), torch.ones(count, dtype=torch.float64))
    assert (gram - torch.eye(count, dtype=torch.float64)).max() < 0.9999


@few
@given(seeds)
def test_optimisation_finds_a_query_for_any_pair(seed: int):
    keys = orthonormal(3, 3, seed=seed)
    wanted = torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64)
    found = better_query(keys, wanted, length=60.0)
    assert float(found.norm()) == pytest.approx(60.0)
    assert float((weights_of(found, keys) - wanted).abs().max()) < 1e-3
