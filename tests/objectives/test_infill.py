"""Infilling: the row restores the text, a quarter is masked, and the loss weights are right."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.objectives.toy_data import PLAIN, random_ids, random_row, seeds

from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.objectives.infill import Infill


def row_and_weights(example):
    """The row before the shift into inputs and targets, and its loss weights."""
    row = np.append(example.inputs, example.targets[-1])
    assert np.array_equal(example.inputs[1:], example.targets[:-1])
    return row, np.insert(example.weights, 0, 0.0)


def restore_text(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The text that a row was made from, and its masked span."""
    row = row[1:] if row[0] == PLAIN.start else row
    row = row[:-1] if row[-1] == PLAIN.stop else row
    first, second = np.flatnonzero(row == PLAIN.mask)
    masked = row[second + 1 :]
    return np.concatenate((row[:first], masked, row[first + 1 : second])), masked


@given(
    length=st.integers(1, 70),
    context=st.integers(4, 64),
    masking_rate=st.floats(0.05, 0.5),
    length_jitter=st.floats(0, 1),
    seed=seeds,
)
def test_row_restores_the_text(length, context, masking_rate, length_jitter, seed):
    document = random_row(length, seed, context=context)
    objective = Infill(masking_rate=masking_rate, length_jitter=length_jitter, loss_on="masked")
    example = objective.example(document, np.random.default_rng(seed), vocabulary=PLAIN)
    row, weights = row_and_weights(example)
    assert len(example.inputs) <= context
    text, masked = restore_text(row)
    assert np.array_equal(text, document.ids[1:-1][: len(text)])
    assert 1 <= len(text) <= max(1, int(0.875 * context))
    assert len(text) >= min(4, length, int(0.875 * context), context - 1)
    assert len(masked) >= 1
    assert len(masked) < len(text) or len(text) == 1
    closing = [PLAIN.stop] if row[-1] == PLAIN.stop else []
    assert np.array_equal(row[weights > 0], np.append(masked, closing))


def test_start_and_stop_are_added_where_they_fit():
    short = Infill().example(random_row(20, context=64), np.random.default_rng(0), vocabulary=PLAIN)
    assert short.inputs[0] == PLAIN.start
    assert short.targets[-1] == PLAIN.stop
    full = Infill(max_context_fraction=1.0, min_tokens=64).example(
        random_row(80, context=16), np.random.default_rng(0), vocabulary=PLAIN
    )
    assert len(full.inputs) == 16
    assert full.targets[-1] != PLAIN.stop


def test_loss_counts_every_token_by_default():
    example = Infill().example(random_row(20), np.random.default_rng(0), vocabulary=PLAIN)
    assert example.weights.all()


@settings(max_examples=20)
@given(length_jitter=st.floats(0, 1), tokens=st.integers(5, 40))
def test_mean_span_length_is_the_masking_rate(length_jitter, tokens):
    generator = np.random.default_rng(0)
    objective = Infill(length_jitter=length_jitter)
    sizes = [objective._draw_span(tokens, generator).size for _ in range(1500)]
    assert abs(np.mean(sizes) - tokens / 4) < 0.02 * tokens
    assert max(sizes) <= np.ceil(tokens / 2)


def test_kept_lengths_are_uniform_between_four_and_seven_eighths_of_the_context():
    generator = np.random.default_rng(0)
    document = random_row(127, context=128)
    sizes = [
        len(Infill().example(document, generator, vocabulary=PLAIN).inputs) - 3 for _ in range(3000)
    ]
    assert (min(sizes), max(sizes)) == (4, 112)
    assert abs(np.mean(sizes) - 58) < 2
    assert abs(np.std(sizes) - 109 / 12**0.5) < 1


@given(length=st.integers(1, 60), context=st.integers(4, 20), seed=seeds)
def test_scored_targets_are_the_indexed_tokens(length, context, seed):
    ids = random_ids(length, seed)
    seen: list[int] = []
    rows = Infill().evaluation_examples(
        ids, np.random.default_rng(seed), context=context, vocabulary=PLAIN
    )
    for row, token_indices in rows:
        assert np.array_equal(row.targets[row.weights > 0], ids[token_indices])
        assert len(row.inputs) <= context
        seen += token_indices.tolist()
    assert len(seen) == len(set(seen))
    assert seen


def test_packed_rows_and_short_contexts_are_refused():
    packed = Document(random_ids(9), np.zeros(9, dtype=np.int64))
    with pytest.raises(UserError, match=r'packed rows join several.*train\.batches = "padded"'):
        Infill().example(packed, np.random.default_rng(0), vocabulary=PLAIN)
    with pytest.raises(UserError, match=r"model\.context = 3 .*= 4 or more"):
        Infill().example(random_row(9, context=3), np.random.default_rng(0), vocabulary=PLAIN)
