"""Hidden tokens: the share, what becomes of them, and that labels are the original tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UserError
from regard.objectives import Vocabulary
from regard.objectives.masked import Masked
from regard.settings import read_settings
from regard.text.rows import Document

VOCABULARY = Vocabulary(size=99, start=2, stop=3, mask=6, specials=frozenset({0, 2, 3, 4, 5, 6}))


def document(length: int, seed: int = 0) -> Document:
    ids = np.random.default_rng(seed).integers(7, 99, size=length)
    return Document(np.concatenate(([2], ids, [3])))


@given(
    length=st.integers(1, 80),
    share=st.floats(0.05, 0.95),
    seed=st.integers(0, 99),
)
def test_labels_are_the_original_and_only_chosen_places_change(length, share, seed):
    row = document(length, seed)
    generator = np.random.default_rng(seed)
    example = Masked(share=share).example(row, generator, vocabulary=VOCABULARY)
    assert np.array_equal(example.targets, row.ids[:-1])
    chosen = example.weights > 0
    assert np.array_equal(example.inputs[~chosen], row.ids[:-1][~chosen])
    assert chosen.sum() == min(length, max(1, round(share * length)))
    assert not chosen[0]  # <start> is no text
    again = Masked(share=share).example(row, np.random.default_rng(seed), vocabulary=VOCABULARY)
    assert np.array_equal(example.inputs, again.inputs)


def test_shares_of_mask_random_and_kept():
    generator = np.random.default_rng(0)
    rows = [document(400, seed) for seed in range(50)]
    examples = [Masked().example(row, generator, vocabulary=VOCABULARY) for row in rows]
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
    assert not set(swapped.tolist()) & VOCABULARY.specials


@given(length=st.integers(1, 60), context=st.integers(2, 20))
def test_measured_tokens_are_those_that_are_named(length, context):
    ids = np.random.default_rng(length).integers(7, 99, size=length)
    wrapped = np.concatenate((ids, [3]))
    seen: list[int] = []
    for row, tells in Masked(share=0.3).scored(
        ids, np.random.default_rng(0), context=context, vocabulary=VOCABULARY
    ):
        assert np.array_equal(row.targets[row.weights > 0], wrapped[tells])
        assert len(row.inputs) <= context
        seen += tells.tolist()
    assert len(seen) == len(set(seen))
    assert seen


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match=r"as_mask = 0.9 and as_random = 0.2 are more than all"):
        read_settings(Masked, {"as_mask": 0.9, "as_random": 0.2}, key="objective")
    without = VOCABULARY._replace(mask=None)
    with pytest.raises(UserError, match=r"no \[MASK\] token"):
        Masked().example(document(5), np.random.default_rng(0), vocabulary=without)
