"""Prefix LM: source and target together are the text, and targets are the shifted inputs."""

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
def test_source_and_target_concatenate_to_the_row(length, seed):
    ids = np.random.default_rng(seed).integers(7, 99, size=length)
    example = PrefixLM().example(Document(ids), np.random.default_rng(seed), vocabulary=VOCABULARY)
    assert np.array_equal(np.concatenate((example.source, example.targets)), ids)
    assert np.array_equal(example.inputs, np.concatenate(([2], example.targets[:-1])))
    assert example.weights.all()
    assert 1 <= len(example.source) < length


@given(length=st.integers(1, 60), context=st.integers(2, 20))
def test_scored_targets_are_the_indexed_tokens(length, context):
    ids = np.random.default_rng(length).integers(7, 99, size=length)
    wrapped = np.concatenate((ids, [3]))
    seen: list[int] = []
    for row, token_indices in PrefixLM().evaluation_examples(
        ids, np.random.default_rng(0), context=context, vocabulary=VOCABULARY
    ):
        assert np.array_equal(row.targets, wrapped[token_indices])
        assert len(row.inputs) <= context
        seen += token_indices.tolist()
    assert len(seen) == len(set(seen))
    assert seen


def test_prefix_fractions_in_the_wrong_order_are_refused():
    with pytest.raises(UserError, match=r"min_prefix_fraction = 0\.9 .*max_prefix_fraction = 0\.5"):
        read_settings(
            PrefixLM, {"min_prefix_fraction": 0.9, "max_prefix_fraction": 0.5}, key="objective"
        )
