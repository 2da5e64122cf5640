"""Lessons on sequences and scores: checks pass for other parameters; exercises are marked."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.lesson_checks import assert_checks_pass

from regard.attention.kinds.dot import Dot
from regard.lessons.exercise import build_sheet
from regard.lessons.topics.sequences import bottleneck
from regard.models.families.recurrent import Recurrent

seeds = st.integers(0, 999_999)
few_examples = settings(max_examples=5, deadline=None)


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 12), st.integers(0, 7))
def test_bleu_by_hand(wrong: int, missing: int):
    assert_checks_pass("bleu-by-hand", wrong=wrong, missing=missing)


@few_examples
@given(st.integers(1, 8), st.integers(1, 8), seeds)
def test_which_family(source: int, target: int, seed: int):
    assert_checks_pass("which-family", source=source, target=target, seed=seed)


@few_examples
@given(seeds)
def test_bleu_exercise(seed: int):
    sheet = build_sheet("bleu-by-hand", seed)
    hypothesis, reference = (sheet.given[name].split() for name in ("hypothesis", "reference"))
    matches, totals, unclipped = [], [], []
    for n in range(1, 5):
        found, expected = (
            Counter(zip(*(words[k:] for k in range(n)), strict=False))
            for words in (hypothesis, reference)
        )
        matches.append((found & expected).total())
        totals.append(found.total())
        unclipped.append(sum(count for ngram, count in found.items() if ngram in expected))
    brevity = min(1.0, math.exp(1 - len(reference) / len(hypothesis)))
    score = brevity * math.exp(np.mean(np.log(np.array(matches) / totals)))
    correct = {
        "matches": torch.tensor(matches, dtype=torch.float64),
        "totals": torch.tensor(totals, dtype=torch.float64),
        "bleu": torch.tensor(round(score, 3)),
    }
    assert sheet.mark(correct).passed
    # The usual mistake: matches that are not clipped to the reference.
    if unclipped != matches:
        assert not sheet.mark({**correct, "matches": torch.tensor(unclipped)}).passed
    assert not sheet.mark({**correct, "bleu": torch.tensor(score + 0.01)}).passed


@few_examples
@given(seeds)
def test_which_family_exercise(seed: int):
    sheet = build_sheet("which-family", seed)
    source, padded, target = (sheet.given[name] for name in ("source", "padding", "target"))
    valid = torch.arange(source) < source - padded
    correct = {
        "encoder": valid.expand(source, source),
        "decoder": torch.ones(target, target).tril().bool(),
        "cross": valid.expand(target, source),
    }
    mark = sheet.mark(correct)
    assert mark.passed
    assert mark.attention_map.values.shape == (target, source)
    for name, mask in correct.items():
        assert not sheet.mark({**correct, name: ~mask}).passed


@pytest.mark.parametrize("attention", [None, Dot()])
def test_untrained_model_is_at_chance(attention):
    family = Recurrent(width=16, context=8, attention=attention)
    model = bottleneck._train(family, max_length=4, steps=1, seed=0)
    assert bottleneck._accuracy(model, 3, seed=1) < 0.3


def test_copying_one_word_is_learned():
    family = Recurrent(width=32, context=4)
    model = bottleneck._train(family, max_length=1, steps=150, seed=0)
    assert bottleneck._accuracy(model, 1, seed=1) > 0.9


@pytest.mark.long
def test_bottleneck():
    assert_checks_pass("bottleneck")
