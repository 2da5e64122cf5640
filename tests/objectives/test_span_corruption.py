"""Span corruption: sentinels are in order, and source and target restore the text."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objectives.toy_data import PLAIN, random_ids, random_row, seeds

from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.objectives.span_corruption import DecoderSpanCorruption, SpanCorruption

MANY_SENTINELS = replace(
    PLAIN,
    size=199,
    specials=PLAIN.specials | frozenset(range(99, 199)),
    sentinels=tuple(range(90, 199)),
)


def restore_text(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The source with each sentinel replaced by the tokens that follow it in the target."""
    sentinels = MANY_SENTINELS.sentinels
    assert target[-1] == MANY_SENTINELS.stop
    begins = np.flatnonzero(np.isin(target, sentinels))
    assert target[begins].tolist() == list(sentinels[: len(begins)])
    assert source[np.isin(source, sentinels)].tolist() == target[begins].tolist()
    ends = [*begins[1:], len(target) - 1]
    spans = {int(target[b]): target[b + 1 : e] for b, e in zip(begins, ends, strict=True)}
    assert all(len(span) for span in spans.values())
    return np.concatenate([spans.get(int(i), np.array([i])) for i in source])


@given(
    length=st.integers(1, 80),
    corruption_rate=st.floats(0.05, 0.6),
    mean_length=st.floats(1, 6),
    seed=seeds,
)
def test_source_and_target_restore_the_text(length, corruption_rate, mean_length, seed):
    row = random_row(length, seed)
    objective = SpanCorruption(corruption_rate=corruption_rate, mean_length=mean_length)
    example = objective.example(row, np.random.default_rng(seed), vocabulary=MANY_SENTINELS)
    assert np.array_equal(restore_text(example.source, example.targets), row.ids[:-1])
    assert np.array_equal(example.inputs, np.concatenate(([2], example.targets[:-1])))
    assert example.weights.all()
    masked = ~np.isin(example.targets, [*MANY_SENTINELS.sentinels, MANY_SENTINELS.stop])
    assert masked.sum() == min(length, max(1, round(corruption_rate * length)))


@given(length=st.integers(1, 80), context=st.integers(8, 60), seed=seeds)
def test_decoder_row_has_loss_on_the_target_only(length, context, seed):
    document = random_row(length, seed, context=context)
    example = DecoderSpanCorruption().example(
        document, np.random.default_rng(seed), vocabulary=MANY_SENTINELS
    )
    assert len(example.inputs) <= context
    row = np.append(example.inputs, example.targets[-1])
    separator = int(np.flatnonzero(row == MANY_SENTINELS.sep)[0])
    assert row[0] == MANY_SENTINELS.start
    text = restore_text(row[1:separator], row[separator + 1 :])
    assert np.array_equal(text, document.ids[1:-1][: len(text)])
    assert len(text) == min(length, len(text)) > 0
    scored = np.insert(example.weights, 0, 0.0) > 0
    assert np.array_equal(np.flatnonzero(scored), np.arange(separator + 1, len(row)))


@given(seed=seeds)
def test_special_tokens_of_packed_rows_are_not_masked(seed):
    ids = np.concatenate((random_ids(20, seed), [3, 2], random_ids(15, seed + 1), [3]))
    example = SpanCorruption(corruption_rate=0.5).example(
        Document(ids, np.zeros(len(ids), dtype=np.int64)),
        np.random.default_rng(seed),
        vocabulary=MANY_SENTINELS,
    )
    assert np.array_equal(restore_text(example.source, example.targets), ids[:-1])


def test_span_counts_are_exact_and_positions_uniform():
    generator = np.random.default_rng(0)
    masks = np.array([SpanCorruption()._draw_mask(100, generator) for _ in range(800)])
    assert (masks.sum(axis=1) == 15).all()
    starts = (masks & ~np.pad(masks, ((0, 0), (1, 0)))[:, :-1]).sum(axis=1)
    assert (starts == 5).all()
    # Uniform, except near the edges, which fewer spans reach; neither edge is left out.
    rates = masks.mean(axis=0)
    assert np.abs(rates[10:-10] - 0.155).max() < 0.05
    assert 0.02 < rates[0] < 0.1
    assert 0.02 < rates[-1] < 0.1


@pytest.mark.parametrize(
    "objective", [SpanCorruption(corruption_rate=0.3), DecoderSpanCorruption(corruption_rate=0.3)]
)
@pytest.mark.parametrize("length", [1, 7, 20, 59])
@pytest.mark.parametrize("context", [8, 13, 30])
def test_scored_targets_are_the_indexed_tokens(objective, length, context):
    ids = random_ids(length)
    wrapped = np.concatenate((ids, [3]))
    seen: list[int] = []
    for row, token_indices in objective.evaluation_examples(
        ids, np.random.default_rng(0), context=context, vocabulary=MANY_SENTINELS
    ):
        assert np.array_equal(row.targets[row.weights > 0], wrapped[token_indices])
        assert len(row.inputs) <= context
        seen += token_indices.tolist()
    assert len(seen) == len(set(seen))
    assert seen


def test_too_few_sentinels_and_too_long_targets_are_refused():
    without_sentinels = replace(PLAIN, sentinels=())
    with pytest.raises(UserError, match=r"no sentinels.*tokenizer\.sentinels = 10"):
        SpanCorruption().example(
            random_row(9), np.random.default_rng(0), vocabulary=without_sentinels
        )
    with pytest.raises(UserError, match=r"15 spans.*9 sentinels.*sentinels = 15"):
        SpanCorruption().example(random_row(299), np.random.default_rng(0), vocabulary=PLAIN)
    with pytest.raises(UserError, match=r"target has \d+ tokens.*model\.context = 20"):
        SpanCorruption(corruption_rate=0.9, mean_length=1.0).example(
            random_row(20, context=20), np.random.default_rng(0), vocabulary=MANY_SENTINELS
        )
