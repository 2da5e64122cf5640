"""Lessons on positions: checks pass for other parameters; exercises accept correct answers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.lesson_checks import assert_checks_pass

from regard.lessons import run_lesson
from regard.lessons.exercise import build_sheet

seeds = st.integers(0, 999_999)
few_examples = settings(max_examples=5, deadline=None)


@few_examples
@given(st.integers(1, 4), st.integers(2, 32), seeds)
def test_word_order(layers: int, length: int, seed: int):
    assert_checks_pass("word-order", layers=layers, length=length, seed=seed)


@few_examples
@given(st.integers(16, 128), st.floats(0.01, 1), seeds)
def test_sinusoids(half_width: int, std: float, seed: int):
    assert_checks_pass("sinusoids", half_width=half_width, std=std, seed=seed)


@few_examples
@given(st.integers(1, 64), st.integers(0, 31), st.integers(0, 31), seeds)
def test_add_or_concatenate(half_width: int, first: int, second: int, seed: int):
    positions = {"first": first, "second": second}
    assert_checks_pass("add-or-concatenate", half_width=half_width, seed=seed, **positions)


@few_examples
@given(st.integers(2, 24), st.integers(1, 32), st.integers(1, 16), seeds)
def test_relative_bias(length: int, width: int, beside: int, seed: int):
    assert_checks_pass("relative-bias", length=length, width=width, beside=beside, seed=seed)


@few_examples
@given(
    st.integers(4, 1024), st.integers(1, 6), st.integers(1, 8), st.integers(1, 8), st.integers(1, 3)
)
def test_position_counts(context: int, layers: int, heads: int, half_head: int, clip: int):
    size = {"context": context, "layers": layers, "heads": heads, "half_head": half_head}
    assert_checks_pass("position-counts", clip=clip, **size)


@settings(max_examples=4, deadline=None)
@given(st.integers(2, 4), seeds)
def test_masked_positions(masked: int, seed: int):
    assert_checks_pass("masked-positions", masked=masked, seed=seed)


def test_decoder_without_positions_needs_two_layers_to_distinguish_word_order():
    rows = dict(run_lesson("word-order", layers=1).result.table.rows)
    assert rows["decoder, 1 layer"] < 1e-12 < rows["decoder, 2 layers"]


def word_order(given):
    bags = [sorted(sentence.split()) for sentence in given["sentences"]]
    return {"alike": torch.tensor([[bag == other for other in bags] for bag in bags])}


def sinusoids(given):
    matrix = torch.zeros(4, 4, dtype=torch.float64)
    for pair, frequency in enumerate((1.0, 0.01)):
        angle = given["steps"] * frequency
        rotation = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        matrix[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = torch.tensor(rotation)
    return {"M": matrix}


def add_or_concatenate(given):
    x, p = given["x"], given["p"]
    return {"added": (x + p) @ (x + p).T, "concatenated": x @ x.T + p @ p.T}


def relative_bias(given):
    return {"bias": given["weights"].log() - given["keys"] @ given["q"] / 2}


def position_counts(given):
    context, layers, heads = given["context"], given["layers"], given["heads"]
    relative = layers * heads * (2 * context - 1)
    clipped = layers * heads * (2 * given["clip"] + 1)
    counts = [context * given["width"], relative, clipped, 0]
    return {"counts": torch.tensor(counts, dtype=torch.float64)}


SOLUTIONS = {
    "word-order": word_order,
    "sinusoids": sinusoids,
    "add-or-concatenate": add_or_concatenate,
    "relative-bias": relative_bias,
    "position-counts": position_counts,
}


@pytest.mark.parametrize("name", SOLUTIONS)
@settings(max_examples=4, deadline=None)
@given(seed=seeds)
def test_correct_answers_pass_and_wrong_answers_fail(name: str, seed: int):
    sheet = build_sheet(name, seed)
    answer = SOLUTIONS[name](sheet.given)
    assert sheet.mark(answer).passed
    slot, correct = next(iter(answer.items()))
    wrong = correct.clone().flatten()
    wrong[0] = ~wrong[0] if wrong.dtype == torch.bool else wrong[0] + 1
    assert not sheet.mark({**answer, slot: wrong.view(correct.shape)}).passed
