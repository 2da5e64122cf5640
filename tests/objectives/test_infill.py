"""A gap moved to the end: nothing is lost, a quarter is masked, and the weights are where asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.objectives.shelf import PLAIN, ids_of, plain_row, seeds

from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.objectives.infill import Infill


def row_and_weights(example):
    """The row as it was before inputs and targets were parted, and what counts in it."""
    row = np.append(example.inputs, example.targets[-1])
    assert np.array_equal(example.inputs[1:], example.targets[:-1])
    return row, np.insert(example.weights, 0, 0.0)


def put_together(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The text that a row was made from, and the masked part of it."""
    row = row[1:] if row[0] == PLAIN.start else row
    row = row[:-1] if row[-1] == PLAIN.stop else row
    first, second = np.flatnonzero(row == PLAIN.mask)
    masked = row[second + 1 :]
    return np.concatenate((row[:first], masked, row[first + 1 : second])), masked


@given(
    length=st.integers(1, 70),
    context=st.integers(4, 64),
    share=st.floats(0.05, 0.5),
    spread=st.floats(0, 1),
    seed=seeds,
)
def test_the_text_can_be_put_together_again(length, context, share, spread, seed):
    document = plain_row(length, seed, context=context)
    objective = Infill(share=share, spread=spread, tells="masked")
    example = objective.example(document, np.random.default_rng(seed), vocabulary=PLAIN)
    row, weights = row_and_weights(example)
    assert len(example.inputs) <= context
    text, masked = put_together(row)
    assert np.array_equal(text, document.ids[1:-1][: len(text)])
    assert 1 <= len(text) <= max(1, int(0.875 * context))
    assert len(text) >= min(4, length, int(0.875 * context), context - 1)
    assert len(masked) >= 1
    assert len(masked) < len(text) or len(text) == 1
    closing = [PLAIN.stop] if row[-1] == PLAIN.stop else []
    assert np.array_equal(row[weights > 0], np.append(masked, closing))


def test_start_and_stop_stand_where_there_is_room():
    roomy = Infill().example(plain_row(20, context=64), np.random.default_rng(0), vocabulary=PLAIN)
    assert roomy.inputs[0] == PLAIN.start
    assert roomy.targets[-1] == PLAIN.stop
    full = Infill(longest=1.0, shortest=64).example(
        plain_row(80, context=16), np.random.default_rng(0), vocabulary=PLAIN
    )
    assert len(full.inputs) == 16
    assert full.targets[-1] != PLAIN.stop


def test_everything_counts_unless_asked_otherwise():
    example = Infill().example(plain_row(20), np.random.default_rng(0), vocabulary=PLAIN)
    assert example.weights.all()


@settings(max_examples=20)
@given(spread=st.floats(0, 1), tokens=st.integers(5, 40))
def test_the_masked_length_is_the_share_on_average(spread, tokens):
    generator = np.random.default_rng(0)
    sizes = [Infill(spread=spread)._gap(tokens, generator).size for _ in range(1500)]
    assert abs(np.mean(sizes) - tokens / 4) < 0.02 * tokens
    assert max(sizes) <= np.ceil(tokens / 2)


def test_lengths_are_uniform_between_four_and_seven_eighths():
    generator = np.random.default_rng(0)
    document = plain_row(127, context=128)
    sizes = [
        len(Infill().example(document, generator, vocabulary=PLAIN).inputs) - 3 for _ in range(3000)
    ]
    assert (min(sizes), max(sizes)) == (4, 112)
    assert abs(np.mean(sizes) - 58) < 2
    assert abs(np.std(sizes) - 109 / 12**0.5) < 1


@given(length=st.integers(1, 60), context=st.integers(4, 20), seed=seeds)
def test_measured_tokens_are_those_that_are_named(length, context, seed):
    ids = ids_of(length, seed)
    seen: list[int] = []
    rows = Infill().scored(ids, np.random.default_rng(seed), context=context, vocabulary=PLAIN)
    for row, tells in rows:
        assert np.array_equal(row.targets[row.weights > 0], ids[tells])
        assert len(row.inputs) <= context
        seen += tells.tolist()
    assert len(seen) == len(set(seen))
    assert seen


def test_packed_rows_and_tiny_contexts_are_refused():
    packed = Document(ids_of(9), np.zeros(9, dtype=np.int64))
    with pytest.raises(UserError, match=r'packed rows join several.*train\.batches = "padded"'):
        Infill().example(packed, np.random.default_rng(0), vocabulary=PLAIN)
    with pytest.raises(UserError, match=r"model\.context = 3 has no room.*= 4 or more"):
        Infill().example(plain_row(9, context=3), np.random.default_rng(0), vocabulary=PLAIN)
