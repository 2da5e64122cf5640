"""Masks: the lessons hold for other sizes and seeds, the trained one with its own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.holding import holds

seeds = st.integers(0, 999_999)
few = settings(max_examples=8, deadline=None)


@few
@given(st.integers(1, 8), seeds)
def test_three_masks(first: int, seed: int):
    holds("three-masks", first=first, seed=seed)


@few
@given(st.integers(3, 12), st.integers(2, 32), seeds)
def test_zero_masking(positions: int, width: int, seed: int):
    holds("zero-masking", positions=positions, width=width, seed=seed)


@settings(max_examples=4, deadline=None)
@given(st.integers(20, 200), st.floats(0.2, 0.8), seeds)
def test_null_threshold(questions: int, answerable: float, seed: int):
    holds("null-threshold", questions=questions, answerable=answerable, seed=seed)


@pytest.mark.long
def test_a_mask_after_the_softmax_predicts_a_die():
    holds("zero-masking-trained")
