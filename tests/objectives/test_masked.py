"""Masked language modelling: masking rate, replacements, and labels that are the original ids."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objectives.toy_data import (
    PLAIN,
    encode_row,
    kinds,
    random_ids,
    random_row,
    seeds,
    texts,
    vocabulary,
)

from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.objectives.masked import Masked
from regard.objectives.salient_spans import salient_spans
from regard.objectives.words import find_words


@given(length=st.integers(1, 80), masking_rate=st.floats(0.05, 0.95), seed=seeds)
def test_targets_are_the_original_ids_and_only_masked_positions_change(length, masking_rate, seed):
    row = random_row(length, seed)
    generator = np.random.default_rng(seed)
    objective = Masked(masking_rate=masking_rate)
    example = objective.example(row, generator, vocabulary=PLAIN)
    assert np.array_equal(example.targets, row.ids[:-1])
    masked = example.weights > 0
    assert np.array_equal(example.inputs[~masked], row.ids[:-1][~masked])
    assert masked.sum() == min(length, max(1, round(masking_rate * length)))
    assert not masked[0]  # <start> is no text
    again = objective.example(row, np.random.default_rng(seed), vocabulary=PLAIN)
    assert np.array_equal(example.inputs, again.inputs)


def test_fractions_of_mask_random_and_unchanged():
    generator = np.random.default_rng(0)
    rows = [random_row(400, seed) for seed in range(50)]
    examples = [Masked().example(row, generator, vocabulary=PLAIN) for row in rows]
    inputs, targets, weights = (
        np.concatenate([getattr(example, name) for example in examples])
        for name in ("inputs", "targets", "weights")
    )
    scored = weights > 0
    assert abs(scored.mean() - 0.15) < 0.01
    as_mask, unchanged = inputs[scored] == 6, inputs[scored] == targets[scored]
    assert abs(as_mask.mean() - 0.8) < 0.03
    assert abs(unchanged.mean() - 0.1) < 0.03
    randomised = inputs[scored][~as_mask & ~unchanged]
    assert not set(randomised.tolist()) & PLAIN.specials


@given(
    kind=kinds,
    text=texts,
    masking_rate=st.floats(0.1, 0.6),
    choose=st.sampled_from(["words", "salient"]),
    seed=seeds,
)
def test_whole_word_masking_stays_within_the_budget(kind, text, masking_rate, choose, seed):
    row = encode_row(text, kind)
    objective = Masked(masking_rate=masking_rate, choose=choose)
    example = objective.example(row, np.random.default_rng(seed), vocabulary=vocabulary(kind))
    masked = example.weights > 0
    words = find_words(row.ids[:-1], vocabulary(kind))
    sizes = words.ends - words.begins
    by_word = [masked[slice(*span)] for span in words.spans()]
    assert all(word.all() or not word.any() for word in by_word)
    budget = objective.budget(int(sizes.sum()))
    # Never more than the budget, and less only where no further word fits.
    assert 0 < masked.sum() <= max(budget, sizes.min())
    free = [size for size, word in zip(sizes, by_word, strict=True) if not word.any()]
    assert all(masked.sum() + size > budget for size in free)
    assert np.array_equal(example.targets, row.ids[:-1])


@given(text=texts, seed=seeds)
def test_salient_spans_are_masked_before_other_words(text, seed):
    row = encode_row(text, "bpe")
    example = Masked(choose="salient", masking_rate=0.9).example(
        row, np.random.default_rng(seed), vocabulary=vocabulary("bpe")
    )
    words = find_words(row.ids[:-1], vocabulary("bpe"))
    spans = [range(*words.tokens(span)) for span in salient_spans(words)]
    assert spans
    assert all(example.weights[list(span)].all() for span in spans)
    small = Masked(choose="salient", masking_rate=0.1).example(
        row, np.random.default_rng(seed), vocabulary=vocabulary("bpe")
    )
    if any(len(span) <= small.weights.sum() for span in spans):
        assert any(small.weights[list(span)].all() for span in spans)


def test_phrases_of_a_list_are_masked(tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("painter's friend\n")
    text = "ada saw a painter's friend and wrote of it in the morning"
    row = encode_row(text, "bpe")
    settings = {"choose": "salient", "phrases": str(file), "masking_rate": 0.3}
    example = read_settings(Masked, settings).example(
        row, np.random.default_rng(0), vocabulary=vocabulary("bpe")
    )
    words = find_words(row.ids[:-1], vocabulary("bpe"))
    masked = {
        words.texts[i] for i, (begin, _) in enumerate(words.spans()) if example.weights[begin] > 0
    }
    assert {"painter's", "friend"} <= masked


@given(
    length=st.integers(1, 60),
    context=st.integers(2, 20),
    choose=st.sampled_from(["tokens", "words"]),
)
def test_scored_targets_are_the_indexed_tokens(length, context, choose):
    ids = random_ids(length)
    wrapped = np.concatenate((ids, [3]))
    seen: list[int] = []
    for row, token_indices in Masked(masking_rate=0.3, choose=choose).evaluation_examples(
        ids, np.random.default_rng(0), context=context, vocabulary=PLAIN
    ):
        assert np.array_equal(row.targets[row.weights > 0], wrapped[token_indices])
        assert len(row.inputs) <= context
        seen += token_indices.tolist()
    assert len(seen) == len(set(seen))
    assert seen


def test_inconsistent_settings_are_refused():
    with pytest.raises(
        UserError, match=r"replace_with_mask = 0\.9 .*replace_with_random = 0\.2 .*more than 1"
    ):
        read_settings(
            Masked, {"replace_with_mask": 0.9, "replace_with_random": 0.2}, key="objective"
        )
    with pytest.raises(UserError, match=r'phrases needs choose = "salient", not "words"'):
        read_settings(Masked, {"choose": "words", "phrases": "list.txt"}, key="objective")
    without_mask = replace(PLAIN, mask=None)
    with pytest.raises(UserError, match=r"no \[MASK\] token"):
        Masked().example(random_row(5), np.random.default_rng(0), vocabulary=without_mask)
