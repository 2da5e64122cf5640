"""Pretraining: labels and span lengths for other shares and seeds; exercises are marked."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.holding import holds

from regard.lessons import run_lesson
from regard.lessons.exercise import pose

seeds = st.integers(0, 999_999)
few = settings(max_examples=5, deadline=None)


def hundredths(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(low, high).map(lambda number: number / 100)


@few
@given(hundredths(5, 50), hundredths(0, 90), seeds)
def test_masked_labels(share: float, as_mask: float, seed: int):
    holds("masked-labels", share=share, as_mask=as_mask, seed=seed)


@few
@given(hundredths(5, 90), st.integers(2, 30), seeds)
def test_span_lengths(ending: float, longest: int, seed: int):
    holds("span-lengths", ending=ending, longest=longest, seed=seed)


@few
@given(seeds)
def test_inputs_and_labels_are_marked(seed: int):
    posed = pose("masked-labels", seed)
    row = posed.given["tokens"]
    inputs, labels = list(row), ["-"] * len(row)
    for place, fate in zip(posed.given["chosen"], posed.given["becomes"], strict=True):
        labels[place] = row[place]
        if fate == "becomes [MASK]":
            inputs[place] = "[MASK]"
        elif fate == "becomes random":
            inputs[place] = posed.given["random"]
    assert posed.mark({"inputs": inputs, "labels": labels}).passed
    # The usual mistake: only [MASK] has a label.
    few_labels = [
        label if word == "[MASK]" else "-" for word, label in zip(inputs, labels, strict=True)
    ]
    found = posed.mark({"inputs": inputs, "labels": few_labels})
    assert not found.passed
    assert "2 of 10 labels" in found.says


@few
@given(seeds)
def test_means_of_lengths_are_marked(seed: int):
    posed = pose("span-lengths", seed)
    p, n = posed.given["ending"], posed.given["longest"]
    law = [p * (1 - p) ** (length - 1) for length in range(1, n + 1)]
    first = sum(length * share for length, share in enumerate(law, start=1))
    again, piled = first / sum(law), first + n * (1 - sum(law))
    assert posed.mark({"drawn_again": round(again, 2), "piled": round(piled, 2)}).passed
    turned = posed.mark({"drawn_again": piled, "piled": again})
    assert not turned.passed
    assert "wrong way round" in turned.says


def test_the_figures_of_the_paper():
    means = run_lesson("span-lengths").result.table.rows[-1]
    assert means[1:4] == pytest.approx((5.0, 3.797, 4.463), abs=5e-4)
