"""Lessons on cost: checks pass for other parameters; exercises accept correct answers only.

FLOPs are counted, never timed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.lesson_checks import assert_checks_pass

from regard.core.errors import UserError
from regard.lessons import run_lesson
from regard.lessons.exercise import build_sheet
from regard.lessons.topics.cost.operation_counts import count_operations, fit_exponent

seeds = st.integers(0, 999_999)
few_examples = settings(max_examples=4, deadline=None)


def test_token_mixing_and_channel_mixing_are_counted():
    x, layer = torch.zeros(3, 5, 7), torch.nn.Linear(7, 11)
    assert count_operations(lambda: x @ x.mT) == (2 * 3 * 5 * 5 * 7, 0)
    assert count_operations(lambda: layer(x)) == (0, 2 * 3 * 5 * 7 * 11)
    q = torch.zeros(1, 2, 9, 4)
    fused = count_operations(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q))
    assert fused == (4 * 2 * 9 * 9 * 4, 0)


@given(st.floats(-3, 3), st.floats(0.1, 10))
def test_fit_exponent(power: float, factor: float):
    sizes = [3, 7, 20]
    exponent = fit_exponent(sizes, [factor * size**power for size in sizes])
    assert exponent == pytest.approx(power, abs=1e-9)


@few_examples
@given(st.integers(4, 32), seeds)
def test_linear_attention(width: int, seed: int):
    assert_checks_pass("linear-attention", width=width, seed=seed)


@settings(max_examples=2, deadline=None)
@given(st.integers(4, 16), seeds)
def test_linear_approximation(width: int, seed: int):
    assert_checks_pass("linear-approximation", width=width, seed=seed)


@few_examples
@given(st.integers(8, 64), seeds)
def test_group_cost(block: int, seed: int):
    assert_checks_pass("group-cost", block=block, seed=seed)


@few_examples
@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 6), seeds)
def test_modality_groups(words: int, patches: int, layers: int, seed: int):
    fusion = 1 + seed % layers
    sizes = {"words": words, "patches": patches, "layers": layers}
    assert_checks_pass("modality-groups", fusion=fusion, seed=seed, **sizes)


def test_groups_that_never_mix_are_refused():
    with pytest.raises(UserError, match="the groups never mix"):
        run_lesson("modality-groups", layers=2, fusion=3)


@few_examples
@given(st.integers(8, 64), st.integers(8, 64), st.integers(4, 32))
def test_encoder_decoder_cost(source: int, target: int, half_width: int):
    assert_checks_pass("encoder-decoder-cost", source=source, target=target, half_width=half_width)


@pytest.mark.long
def test_growth_of_kinds():
    assert_checks_pass("growth-of-kinds", head_width=3, reach=16)


@pytest.mark.long
def test_synthesizer_look_up():
    assert_checks_pass("synthesizer-look-up")


def linear_attention(given):
    keys, values = given["keys"], given["values"]
    return {"S": keys.T @ values, "z": keys.sum(dim=0)}


def modality_groups(given):
    same = given["modalities"][:, None] == given["modalities"]
    return {"mask": same & torch.tensor(given["valid"])}


def encoder_decoder_cost(given):
    m, n, k = given["M"], given["N"], given["k"]
    flops = [4 * m * m * k, 4 * m * n * k, 4 * n * n * k]
    return {"flops": torch.tensor(flops, dtype=torch.float64)}


SOLUTIONS = {
    "linear-attention": linear_attention,
    "modality-groups": modality_groups,
    "encoder-decoder-cost": encoder_decoder_cost,
}


@pytest.mark.parametrize("name", SOLUTIONS)
@few_examples
@given(seed=seeds)
def test_correct_answers_pass_and_wrong_answers_fail(name: str, seed: int):
    sheet = build_sheet(name, seed)
    answer = SOLUTIONS[name](sheet.given)
    assert sheet.mark(answer).passed
    slot, correct = next(iter(answer.items()))
    wrong = correct.clone().flatten()
    wrong[0] = ~wrong[0] if wrong.dtype == torch.bool else wrong[0] + 1
    assert not sheet.mark({**answer, slot: wrong.view(correct.shape)}).passed
