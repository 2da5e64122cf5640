"""Sequences and scores: BLEU and what families see, for other places and sizes; exercises."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lessons.holding import holds

from regard.attention.kinds.dot import Dot
from regard.lessons.exercise import pose
from regard.lessons.topics.sequences import bottleneck as bottleneck
from regard.models.families.recurrent import Recurrent

seeds = st.integers(0, 999_999)
few = settings(max_examples=5, deadline=None)


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 12), st.integers(0, 7))
def test_bleu_by_hand(wrong: int, missing: int):
    holds("bleu-by-hand", wrong=wrong, missing=missing)


@few
@given(st.integers(1, 8), st.integers(1, 8), seeds)
def test_which_family(source: int, target: int, seed: int):
    holds("which-family", source=source, target=target, seed=seed)


@few
@given(seeds)
def test_bleu_is_marked(seed: int):
    posed = pose("bleu-by-hand", seed)
    written, reference = (posed.given[name].split() for name in ("written", "reference"))
    matches, of, unclipped = [], [], []
    for n in range(1, 5):
        ours, theirs = (
            Counter(zip(*(words[k:] for k in range(n)), strict=False))
            for words in (written, reference)
        )
        matches.append((ours & theirs).total())
        of.append(ours.total())
        unclipped.append(sum(count for gram, count in ours.items() if gram in theirs))
    brevity = min(1.0, math.exp(1 - len(reference) / len(written)))
    score = brevity * math.exp(np.mean(np.log(np.array(matches) / of)))
    right = {
        "matches": torch.tensor(matches, dtype=torch.float64),
        "of": torch.tensor(of, dtype=torch.float64),
        "bleu": torch.tensor(round(score, 3)),
    }
    assert posed.mark(right).passed
    # The usual mistake: a third "the" is counted where the reference has two.
    if unclipped != matches:
        assert not posed.mark({**right, "matches": torch.tensor(unclipped)}).passed
    assert not posed.mark({**right, "bleu": torch.tensor(score + 0.01)}).passed


@few
@given(seeds)
def test_three_attentions_are_marked(seed: int):
    posed = pose("which-family", seed)
    s, padded, t = (posed.given[name] for name in ("source", "padding", "target"))
    real = torch.arange(s) < s - padded
    right = {
        "encoder": real.expand(s, s),
        "decoder": torch.ones(t, t).tril().bool(),
        "across": real.expand(t, s),
    }
    found = posed.mark(right)
    assert found.passed
    assert found.weights.values.shape == (t, s)
    for name, table in right.items():
        assert not posed.mark({**right, name: ~table}).passed


@pytest.mark.parametrize("attention", [None, Dot()])
def test_who_has_learnt_nothing_guesses(attention):
    family = Recurrent(width=16, context=8, attention=attention)
    model = bottleneck._trained(family, longest=4, steps=1, seed=0)
    assert bottleneck._right(model, 3, seed=1) < 0.3


def test_a_short_task_is_learnt():
    family = Recurrent(width=32, context=4)
    model = bottleneck._trained(family, longest=1, steps=150, seed=0)
    assert bottleneck._right(model, 1, seed=1) > 0.9


@pytest.mark.long
def test_a_gru_loses_long_sentences():
    holds("bottleneck")
