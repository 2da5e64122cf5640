"""Kinds and cost: the lessons hold for other sizes and seeds, and right answers to exercises pass.

Operations are counted, never timed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.holding import holds

from regard.core.errors import UserError
from regard.lessons import run_lesson
from regard.lessons.exercise import pose
from regard.lessons.topics.cost.counted import exponent, operations

seeds = st.integers(0, 999_999)
few = settings(max_examples=4, deadline=None)


def test_products_are_counted_where_places_meet_and_where_they_do_not():
    x, layer = torch.zeros(3, 5, 7), torch.nn.Linear(7, 11)
    assert operations(lambda: x @ x.mT) == (2 * 3 * 5 * 5 * 7, 0)
    assert operations(lambda: layer(x)) == (0, 2 * 3 * 5 * 7 * 11)
    q = torch.zeros(1, 2, 9, 4)
    fused = operations(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q))
    assert fused == (4 * 2 * 9 * 9 * 4, 0)


@given(st.floats(-3, 3), st.floats(0.1, 10))
def test_exponents_are_found(power: float, factor: float):
    sizes = [3, 7, 20]
    found = exponent(sizes, [factor * size**power for size in sizes])
    assert found == pytest.approx(power, abs=1e-9)


@few
@given(st.integers(4, 32), seeds)
def test_linear_attention(width: int, seed: int):
    holds("linear-attention", width=width, seed=seed)


@settings(max_examples=2, deadline=None)
@given(st.integers(4, 16), seeds)
def test_linear_approximation(width: int, seed: int):
    holds("linear-approximation", width=width, seed=seed)


@few
@given(st.integers(8, 64), seeds)
def test_group_cost(block: int, seed: int):
    holds("group-cost", block=block, seed=seed)


@few
@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 6), seeds)
def test_modality_groups(words: int, patches: int, layers: int, seed: int):
    fusion = 1 + seed % layers
    holds("modality-groups", words=words, patches=patches, layers=layers, fusion=fusion, seed=seed)


def test_groups_that_never_meet_are_refused():
    with pytest.raises(UserError, match="the groups never meet"):
        run_lesson("modality-groups", layers=2, fusion=3)


@few
@given(st.integers(8, 64), st.integers(8, 64), st.integers(4, 32))
def test_encoder_decoder_cost(source: int, target: int, half_width: int):
    holds("encoder-decoder-cost", source=source, target=target, half_width=half_width)


@pytest.mark.long
def test_growth_of_kinds():
    holds("growth-of-kinds", head_width=3, reach=16)


@pytest.mark.long
def test_a_synthesizer_cannot_look_up():
    holds("synthesizer-look-up")


def sums(given):
    keys, values = given["keys"], given["values"]
    return {"S": keys.T @ values, "z": keys.sum(dim=0)}


def grouped(given):
    same = given["modalities"][:, None] == given["modalities"]
    return {"mask": same & torch.tensor(given["valid"])}


def products(given):
    m, n, k = given["M"], given["N"], given["k"]
    found = [4 * m * m * k, 4 * m * n * k, 4 * n * n * k]
    return {"operations": torch.tensor(found, dtype=torch.float64)}


SOLUTIONS = {
    "linear-attention": sums,
    "modality-groups": grouped,
    "encoder-decoder-cost": products,
}


@pytest.mark.parametrize("name", SOLUTIONS)
@few
@given(seed=seeds)
def test_right_answers_pass_and_wrong_ones_do_not(name: str, seed: int):
    posed = pose(name, seed)
    answer = SOLUTIONS[name](posed.given)
    assert posed.mark(answer).passed
    slot, right = next(iter(answer.items()))
    wrong = right.clone().flatten()
    wrong[0] = ~wrong[0] if wrong.dtype == torch.bool else wrong[0] + 1
    assert not posed.mark({**answer, slot: wrong.view(right.shape)}).passed
