"""Sentinels stand in order, and what is given and what is told make up the text again."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objectives.shelf import PLAIN, ids_of, plain_row, seeds

from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.objectives.span_corruption import DecoderSpanCorruption, SpanCorruption

MANY = replace(
    PLAIN,
    size=199,
    specials=PLAIN.specials | frozenset(range(99, 199)),
    sentinels=tuple(range(90, 199)),
)


def put_together(given_ids: np.ndarray, told: np.ndarray) -> np.ndarray:
    """The text, each sentinel exchanged for the tokens told after it."""
    assert told[-1] == MANY.stop
    marks = np.flatnonzero(np.isin(told, MANY.sentinels))
    assert told[marks].tolist() == list(MANY.sentinels[: len(marks)])
    assert given_ids[np.isin(given_ids, MANY.sentinels)].tolist() == told[marks].tolist()
    ends = [*marks[1:], len(told) - 1]
    spans = {int(told[b]): told[b + 1 : e] for b, e in zip(marks, ends, strict=True)}
    assert all(len(span) for span in spans.values())
    return np.concatenate([spans.get(int(i), np.array([i])) for i in given_ids])


@given(
    length=st.integers(1, 80),
    share=st.floats(0.05, 0.6),
    mean_length=st.floats(1, 6),
    seed=seeds,
)
def test_given_and_told_make_up_the_text(length, share, mean_length, seed):
    row = plain_row(length, seed)
    objective = SpanCorruption(share=share, mean_length=mean_length)
    example = objective.example(row, np.random.default_rng(seed), vocabulary=MANY)
    assert np.array_equal(put_together(example.source, example.targets), row.ids[:-1])
    assert np.array_equal(example.inputs, np.concatenate(([2], example.targets[:-1])))
    assert example.weights.all()
    hidden = ~np.isin(example.targets, [*MANY.sentinels, MANY.stop])
    assert hidden.sum() == min(length, max(1, round(share * length)))


@given(length=st.integers(1, 80), context=st.integers(8, 60), seed=seeds)
def test_in_a_row_only_what_is_told_counts(length, context, seed):
    document = plain_row(length, seed, context=context)
    example = DecoderSpanCorruption().example(
        document, np.random.default_rng(seed), vocabulary=MANY
    )
    assert len(example.inputs) <= context
    row = np.append(example.inputs, example.targets[-1])
    between = int(np.flatnonzero(row == MANY.sep)[0])
    assert row[0] == MANY.start
    text = put_together(row[1:between], row[between + 1 :])
    assert np.array_equal(text, document.ids[1:-1][: len(text)])
    assert len(text) == min(length, len(text)) > 0
    told = np.insert(example.weights, 0, 0.0) > 0
    assert np.array_equal(np.flatnonzero(told), np.arange(between + 1, len(row)))


@given(seed=seeds)
def test_packed_rows_keep_their_specials(seed):
    ids = np.concatenate((ids_of(20, seed), [3, 2], ids_of(15, seed + 1), [3]))
    example = SpanCorruption(share=0.5).example(
        Document(ids, np.zeros(len(ids), dtype=np.int64)),
        np.random.default_rng(seed),
        vocabulary=MANY,
    )
    assert np.array_equal(put_together(example.source, example.targets), ids[:-1])


def test_spans_are_as_long_and_anywhere_as_asked():
    generator = np.random.default_rng(0)
    drawn = np.array([SpanCorruption()._drawn(100, generator) for _ in range(800)])
    assert (drawn.sum(axis=1) == 15).all()
    starts = (drawn & ~np.pad(drawn, ((0, 0), (1, 0)))[:, :-1]).sum(axis=1)
    assert (starts == 5).all()
    # All places alike, but near the edges, where fewer spans reach; neither edge is left out.
    shares = drawn.mean(axis=0)
    assert np.abs(shares[10:-10] - 0.155).max() < 0.05
    assert 0.02 < shares[0] < 0.1
    assert 0.02 < shares[-1] < 0.1


@pytest.mark.parametrize("objective", [SpanCorruption(share=0.3), DecoderSpanCorruption(share=0.3)])
@pytest.mark.parametrize("length", [1, 7, 20, 59])
@pytest.mark.parametrize("context", [8, 13, 30])
def test_measured_tokens_are_those_that_are_named(objective, length, context):
    ids = ids_of(length)
    wrapped = np.concatenate((ids, [3]))
    seen: list[int] = []
    for row, tells in objective.scored(
        ids, np.random.default_rng(0), context=context, vocabulary=MANY
    ):
        assert np.array_equal(row.targets[row.weights > 0], wrapped[tells])
        assert len(row.inputs) <= context
        seen += tells.tolist()
    assert len(seen) == len(set(seen))
    assert seen


def test_too_few_sentinels_and_too_little_room_are_refused():
    none = replace(PLAIN, sentinels=())
    with pytest.raises(UserError, match=r"has no sentinels.*Set tokenizer\.sentinels = 10 or more"):
        SpanCorruption().example(plain_row(9), np.random.default_rng(0), vocabulary=none)
    with pytest.raises(UserError, match=r"hides 15 spans.*has 9 sentinels.*= 15 or more"):
        SpanCorruption().example(plain_row(299), np.random.default_rng(0), vocabulary=PLAIN)
    with pytest.raises(UserError, match=r"are to be told where model\.context = 20"):
        SpanCorruption(share=0.9, mean_length=1.0).example(
            plain_row(20, context=20), np.random.default_rng(0), vocabulary=MANY
        )
