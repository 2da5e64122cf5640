"""Lessons on masks: checks pass for other parameters and seeds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.lesson_checks import assert_checks_pass

seeds = st.integers(0, 999_999)
few_examples = settings(max_examples=8, deadline=None)


@few_examples
@given(st.integers(1, 8), seeds)
def test_three_masks(first: int, seed: int):
    assert_checks_pass("three-masks", first=first, seed=seed)


@few_examples
@given(st.integers(3, 12), st.integers(2, 32), seeds)
def test_zero_masking(positions: int, width: int, seed: int):
    assert_checks_pass("zero-masking", positions=positions, width=width, seed=seed)


@settings(max_examples=4, deadline=None)
@given(st.integers(20, 200), st.floats(0.2, 0.8), seeds)
def test_null_threshold(questions: int, answerable: float, seed: int):
    assert_checks_pass("null-threshold", questions=questions, answerable=answerable, seed=seed)


@pytest.mark.long
def test_zero_masking_trained():
    assert_checks_pass("zero-masking-trained")
