"""Hidden tokens: the share, what becomes of them, and that labels are the original tokens."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objectives.shelf import PLAIN, ids_of, kinds, plain_row, row_of, seeds, texts, vocabulary

from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.objectives.masked import Masked
from regard.objectives.salient_spans import salient_spans
from regard.objectives.words import words_of


@given(length=st.integers(1, 80), share=st.floats(0.05, 0.95), seed=seeds)
def test_labels_are_the_original_and_only_chosen_places_change(length, share, seed):
    row = plain_row(length, seed)
    generator = np.random.default_rng(seed)
    example = Masked(share=share).example(row, generator, vocabulary=PLAIN)
    assert np.array_equal(example.targets, row.ids[:-1])
    chosen = example.weights > 0
    assert np.array_equal(example.inputs[~chosen], row.ids[:-1][~chosen])
    assert chosen.sum() == min(length, max(1, round(share * length)))
    assert not chosen[0]  # <start> is no text
    again = Masked(share=share).example(row, np.random.default_rng(seed), vocabulary=PLAIN)
    assert np.array_equal(example.inputs, again.inputs)


def test_shares_of_mask_random_and_kept():
    generator = np.random.default_rng(0)
    rows = [plain_row(400, seed) for seed in range(50)]
    examples = [Masked().example(row, generator, vocabulary=PLAIN) for row in rows]
    inputs, targets, weights = (
        np.concatenate([getattr(example, name) for example in examples])
        for name in ("inputs", "targets", "weights")
    )
    told = weights > 0
    assert abs(told.mean() - 0.15) < 0.01
    masked, kept = inputs[told] == 6, inputs[told] == targets[told]
    assert abs(masked.mean() - 0.8) < 0.03
    assert abs(kept.mean() - 0.1) < 0.03
    swapped = inputs[told][~masked & ~kept]
    assert not set(swapped.tolist()) & PLAIN.specials


@given(
    kind=kinds,
    text=texts,
    share=st.floats(0.1, 0.6),
    choose=st.sampled_from(["words", "salient"]),
    seed=seeds,
)
def test_whole_words_within_the_share(kind, text, share, choose, seed):
    row, known = row_of(text, kind), vocabulary(kind)
    objective = Masked(share=share, choose=choose)
    example = objective.example(row, np.random.default_rng(seed), vocabulary=known)
    chosen = example.weights > 0
    words = words_of(row.ids[:-1], known)
    sizes = words.ends - words.begins
    whole = [chosen[slice(*span)] for span in words.spans()]
    assert all(part.all() or not part.any() for part in whole)
    budget = objective.budget(int(sizes.sum()))
    # Never more than the share, and less only by what no further word fits into.
    assert 0 < chosen.sum() <= max(budget, sizes.min())
    free = [size for size, part in zip(sizes, whole, strict=True) if not part.any()]
    assert all(chosen.sum() + size > budget for size in free)
    assert np.array_equal(example.targets, row.ids[:-1])


@given(text=texts, seed=seeds)
def test_salient_spans_are_hidden_before_other_words(text, seed):
    row, known = row_of(text, "bpe"), vocabulary("bpe")
    example = Masked(choose="salient", share=0.9).example(
        row, np.random.default_rng(seed), vocabulary=known
    )
    words = words_of(row.ids[:-1], known)
    places = [range(*words.tokens(span)) for span in salient_spans(words)]
    assert places
    assert all(example.weights[list(place)].all() for place in places)
    small = Masked(choose="salient", share=0.1).example(
        row, np.random.default_rng(seed), vocabulary=known
    )
    if any(len(place) <= small.weights.sum() for place in places):
        assert any(small.weights[list(place)].all() for place in places)


def test_phrases_of_a_list_are_hidden(tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("painter's friend\n")
    text = "ada saw a painter's friend and wrote of it in the morning"
    row, known = row_of(text, "bpe"), vocabulary("bpe")
    settings = {"choose": "salient", "phrases": str(file), "share": 0.3}
    example = read_settings(Masked, settings).example(
        row, np.random.default_rng(0), vocabulary=known
    )
    words = words_of(row.ids[:-1], known)
    told = {
        words.texts[i] for i, (begin, _) in enumerate(words.spans()) if example.weights[begin] > 0
    }
    assert {"painter's", "friend"} <= told


@given(
    length=st.integers(1, 60),
    context=st.integers(2, 20),
    choose=st.sampled_from(["tokens", "words"]),
)
def test_measured_tokens_are_those_that_are_named(length, context, choose):
    ids = ids_of(length)
    wrapped = np.concatenate((ids, [3]))
    seen: list[int] = []
    for row, tells in Masked(share=0.3, choose=choose).scored(
        ids, np.random.default_rng(0), context=context, vocabulary=PLAIN
    ):
        assert np.array_equal(row.targets[row.weights > 0], wrapped[tells])
        assert len(row.inputs) <= context
        seen += tells.tolist()
    assert len(seen) == len(set(seen))
    assert seen


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match=r"as_mask = 0.9 and as_random = 0.2 are more than all"):
        read_settings(Masked, {"as_mask": 0.9, "as_random": 0.2}, key="objective")
    with pytest.raises(UserError, match=r'phrases needs choose = "salient", not "words"'):
        read_settings(Masked, {"choose": "words", "phrases": "list.txt"}, key="objective")
    without = replace(PLAIN, mask=None)
    with pytest.raises(UserError, match=r"no \[MASK\] token"):
        Masked().example(plain_row(5), np.random.default_rng(0), vocabulary=without)
