"""Positions: the lessons hold for other sizes and seeds, and right answers to exercises pass."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.holding import holds

from regard.lessons import run_lesson
from regard.lessons.exercise import pose

seeds = st.integers(0, 999_999)
few = settings(max_examples=5, deadline=None)


@few
@given(st.integers(1, 4), st.integers(2, 32), seeds)
def test_word_order(layers: int, length: int, seed: int):
    holds("word-order", layers=layers, length=length, seed=seed)


@few
@given(st.integers(16, 128), st.floats(0.01, 1), seeds)
def test_sinusoids(half_width: int, deviation: float, seed: int):
    holds("sinusoids", half_width=half_width, deviation=deviation, seed=seed)


@few
@given(st.integers(1, 64), st.integers(0, 31), st.integers(0, 31), seeds)
def test_add_or_concatenate(half_width: int, first: int, second: int, seed: int):
    holds("add-or-concatenate", half_width=half_width, first=first, second=second, seed=seed)


@few
@given(st.integers(2, 24), st.integers(1, 32), st.integers(1, 16), seeds)
def test_relative_bias(length: int, width: int, beside: int, seed: int):
    holds("relative-bias", length=length, width=width, beside=beside, seed=seed)


@few
@given(
    st.integers(4, 1024), st.integers(1, 6), st.integers(1, 8), st.integers(1, 8), st.integers(1, 3)
)
def test_position_counts(context: int, layers: int, heads: int, half_head: int, clip: int):
    size = {"context": context, "layers": layers, "heads": heads, "half_head": half_head}
    holds("position-counts", clip=clip, **size)


@settings(max_examples=4, deadline=None)
@given(st.integers(2, 4), seeds)
def test_hidden_positions(masked: int, seed: int):
    holds("hidden-positions", masked=masked, seed=seed)


def test_a_decoder_of_one_layer_hears_a_bag_and_of_two_hears_order():
    rows = dict(run_lesson("word-order", layers=1).result.table.rows)
    assert rows["decoder, 1 layer"] < 1e-12 < rows["decoder, 2 layers"]


def alike(given):
    bags = [sorted(row.split()) for row in given["rows"]]
    return {"alike": torch.tensor([[one == other for other in bags] for one in bags])}


def shift(given):
    matrix = torch.zeros(4, 4, dtype=torch.float64)
    for pair, rate in enumerate((1.0, 0.01)):
        angle = given["steps"] * rate
        turn = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        matrix[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = torch.tensor(turn)
    return {"M": matrix}


def both_scores(given):
    x, p = given["x"], given["p"]
    return {"added": (x + p) @ (x + p).T, "concatenated": x @ x.T + p @ p.T}


def biases(given):
    return {"bias": given["weights"].log() - given["keys"] @ given["q"] / 2}


def counts(given):
    context, layers, heads = given["context"], given["layers"], given["heads"]
    relative = layers * heads * (2 * context - 1)
    clipped = layers * heads * (2 * given["clip"] + 1)
    found = [context * given["width"], relative, clipped, 0]
    return {"counts": torch.tensor(found, dtype=torch.float64)}


SOLUTIONS = {
    "word-order": alike,
    "sinusoids": shift,
    "add-or-concatenate": both_scores,
    "relative-bias": biases,
    "position-counts": counts,
}


@pytest.mark.parametrize("name", SOLUTIONS)
@settings(max_examples=4, deadline=None)
@given(seed=seeds)
def test_right_answers_pass_and_wrong_ones_do_not(name: str, seed: int):
    posed = pose(name, seed)
    answer = SOLUTIONS[name](posed.given)
    assert posed.mark(answer).passed
    slot, right = next(iter(answer.items()))
    wrong = right.clone().flatten()
    wrong[0] = ~wrong[0] if wrong.dtype == torch.bool else wrong[0] + 1
    assert not posed.mark({**answer, slot: wrong.view(right.shape)}).passed
