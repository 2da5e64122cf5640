"""Source and target together are the text, and the target is told token by token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.data.chunks import Document
from regard.objectives import Vocabulary
from regard.objectives.prefix_lm import PrefixLM

VOCABULARY = Vocabulary(size=99, start=2, stop=3, mask=6, specials=frozenset({0, 2, 3, 4, 5, 6}))


@given(length=st.integers(2, 80), seed=st.integers(0, 99))
def test_source_and_target_make_up_the_row(length, seed):
    ids = np.random.default_rng(seed).integers(7, 99, size=length)
    example = PrefixLM().example(Document(ids), np.random.default_rng(seed), vocabulary=VOCABULARY)
    assert np.array_equal(np.concatenate((example.source, example.targets)), ids)
    assert np.array_equal(example.inputs, np.concatenate(([2], example.targets[:-1])))
    assert example.weights.all()
    assert 1 <= len(example.source) < length


@given(length=st.integers(1, 60), context=st.integers(2, 20))
def test_measured_tokens_are_those_that_are_named(length, context):
    ids = np.random.default_rng(length).integers(7, 99, size=length)
    wrapped = np.concatenate((ids, [3]))
    seen: list[int] = []
    for row, tells in PrefixLM().scored(
        ids, np.random.default_rng(0), context=context, vocabulary=VOCABULARY
    ):
        assert np.array_equal(row.targets, wrapped[tells])
        assert len(row.inputs) <= context
        seen += tells.tolist()
    assert len(seen) == len(set(seen))
    assert seen


def test_shares_in_the_wrong_order_are_refused():
    with pytest.raises(UserError, match=r"shortest = 0.9 is more than longest = 0.5"):
        read_settings(PrefixLM, {"shortest": 0.9, "longest": 0.5}, key="objective")
