"""Lessons on pretraining: checks pass for other parameters; exercises are marked."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.lesson_checks import assert_checks_pass

from regard.lessons import run_lesson
from regard.lessons.exercise import build_sheet

seeds = st.integers(0, 999_999)
few_examples = settings(max_examples=5, deadline=None)


def hundredths(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(low, high).map(lambda number: number / 100)


@few_examples
@given(hundredths(5, 50), hundredths(0, 90), seeds)
def test_masked_labels(masking_rate: float, replace_with_mask: float, seed: int):
    rates = {"masking_rate": masking_rate, "replace_with_mask": replace_with_mask}
    assert_checks_pass("masked-labels", seed=seed, **rates)


@few_examples
@given(hundredths(5, 90), st.integers(2, 30), seeds)
def test_span_lengths(geometric_p: float, max_span_words: int, seed: int):
    lengths = {"geometric_p": geometric_p, "max_span_words": max_span_words}
    assert_checks_pass("span-lengths", seed=seed, **lengths)


@few_examples
@given(seeds)
def test_masked_labels_exercise(seed: int):
    sheet = build_sheet("masked-labels", seed)
    tokens = sheet.given["tokens"]
    inputs, labels = list(tokens), ["-"] * len(tokens)
    for position, kind in zip(sheet.given["selected"], sheet.given["replaced_by"], strict=True):
        labels[position] = tokens[position]
        if kind == "[MASK]":
            inputs[position] = "[MASK]"
        elif kind == "random":
            inputs[position] = sheet.given["random"]
    assert sheet.mark({"inputs": inputs, "labels": labels}).passed
    # The usual mistake: labels at [MASK] only.
    mask_labels = [
        label if token == "[MASK]" else "-" for token, label in zip(inputs, labels, strict=True)
    ]
    mark = sheet.mark({"inputs": inputs, "labels": mask_labels})
    assert not mark.passed
    assert "2 of 10 labels" in mark.feedback


@few_examples
@given(seeds)
def test_span_lengths_exercise(seed: int):
    sheet = build_sheet("span-lengths", seed)
    p, n = sheet.given["geometric_p"], sheet.given["max_span_words"]
    geometric = [p * (1 - p) ** (length - 1) for length in range(1, n + 1)]
    partial_mean = sum(length * weight for length, weight in enumerate(geometric, start=1))
    resampled = partial_mean / sum(geometric)
    clipped = partial_mean + n * (1 - sum(geometric))
    assert sheet.mark({"resampled": round(resampled, 2), "clipped": round(clipped, 2)}).passed
    swapped = sheet.mark({"resampled": clipped, "clipped": resampled})
    assert not swapped.passed
    assert "swapped" in swapped.feedback


def test_span_length_means_of_the_paper():
    means = run_lesson("span-lengths").result.table.rows[-1]
    assert means[1:4] == pytest.approx((5.0, 3.797, 4.463), abs=5e-4)
