"""SpanBERT: span-length distribution, one replacement a span, boundary labels, masking budget."""

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

from regard.objectives.spanbert import SpanBert
from regard.objectives.words import find_words


def runs(masked: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(masked.astype(int), prepend=0, append=0))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def test_length_distribution_is_cut_off_and_renormalised():
    distribution = SpanBert().length_distribution()
    assert len(distribution) == 10
    assert distribution.sum() == pytest.approx(1)
    assert distribution[1:] / distribution[:-1] == pytest.approx(np.full(9, 0.8))
    mean = distribution @ np.arange(1, 11)
    assert mean == pytest.approx(5 - 10 * 0.8**10 / (1 - 0.8**10))  # in closed form
    assert round(mean, 2) == 3.80
    clipped = 0.2 * 0.8 ** np.arange(10)
    clipped[9] += 0.8**10
    assert round(clipped @ np.arange(1, 11), 2) == 4.46  # the mean with clipping, not redrawing


def test_drawn_lengths_follow_the_distribution():
    # At a low rate in a long row, spans are truncated neither by the budget nor by others.
    generator = np.random.default_rng(0)
    row = find_words(random_row(4000).ids, PLAIN)
    sizes = [size for _ in range(40) for size in _sizes(row, generator)]
    distribution = SpanBert().length_distribution()
    observed = np.bincount(sizes, minlength=11)[1:] / len(sizes)
    assert abs(np.mean(sizes) - distribution @ np.arange(1, 11)) < 0.3
    assert np.abs(observed - distribution).max() < 0.04


def _sizes(row, generator) -> list[int]:
    return [span.size for span in SpanBert(masking_rate=0.01).draw_spans(row, generator)]


@given(kind=kinds, text=texts, masking_rate=st.floats(0.05, 0.5), seed=seeds)
def test_spans_are_whole_words_within_the_budget(kind, text, masking_rate, seed):
    row = encode_row(text, kind)
    objective = SpanBert(masking_rate=masking_rate)
    example = objective.example(row, np.random.default_rng(seed), vocabulary=vocabulary(kind))
    masked = example.weights > 0
    words = find_words(row.ids[:-1], vocabulary(kind))
    by_word = [masked[slice(*span)] for span in words.spans()]
    assert all(word.all() or not word.any() for word in by_word)
    sizes = words.ends - words.begins
    assert 0 < masked.sum() <= max(objective.budget(int(sizes.sum())), sizes.max())
    assert np.array_equal(example.targets, row.ids[:-1])
    assert np.array_equal(example.inputs[~masked], row.ids[:-1][~masked])


@given(length=st.integers(1, 80), seed=seeds)
def test_labels_are_masked_positions_and_the_boundaries_of_their_span(length, seed):
    row = random_row(length, seed)
    example = SpanBert().example(row, np.random.default_rng(seed), vocabulary=PLAIN)
    masked = example.weights > 0
    labels = example.labels.reshape(-1, 3)
    expected = [
        (position, begin - 1, end)
        for begin, end in runs(masked)
        if begin > 0 and end < len(masked)
        for position in range(begin, end)
    ]
    assert [tuple(label) for label in labels.tolist()] == expected
    assert not masked[labels[:, 1:]].any()  # boundaries are not masked


def test_all_tokens_of_a_span_get_the_same_replacement():
    counts = {"mask": 0, "random": 0, "unchanged": 0}
    for seed in range(300):
        row = random_row(60, seed)
        example = SpanBert().example(row, np.random.default_rng(seed), vocabulary=PLAIN)
        for begin, end in runs(example.weights > 0):
            inputs, targets = example.inputs[begin:end], example.targets[begin:end]
            if (inputs == PLAIN.mask).any():
                assert (inputs == PLAIN.mask).all()
                counts["mask"] += 1
            else:
                counts["unchanged" if np.array_equal(inputs, targets) else "random"] += 1
    spans = sum(counts.values())
    assert abs(counts["mask"] / spans - 0.8) < 0.05
    assert abs(counts["random"] / spans - 0.1) < 0.04


def test_mean_masking_rate_over_many_rows():
    rates = [
        SpanBert()
        .example(random_row(200, seed), np.random.default_rng(seed), vocabulary=PLAIN)
        .weights.mean()
        for seed in range(60)
    ]
    assert abs(np.mean(rates) - 0.15) < 0.005


def test_spans_do_not_cross_documents():
    ids = np.concatenate((random_ids(20), [3, 2], random_ids(20, 1)))
    words = find_words(ids, PLAIN)
    for seed in range(50):
        spans = SpanBert(masking_rate=0.5).draw_spans(words, np.random.default_rng(seed))
        assert not any(span.begin < 20 < span.end for span in spans)


@given(length=st.integers(1, 60), context=st.integers(2, 20))
def test_scored_targets_are_the_indexed_tokens(length, context):
    ids = random_ids(length)
    wrapped = np.concatenate((ids, [3]))
    seen: list[int] = []
    for row, token_indices in SpanBert().evaluation_examples(
        ids, np.random.default_rng(0), context=context, vocabulary=PLAIN
    ):
        assert np.array_equal(row.targets[row.weights > 0], wrapped[token_indices])
        seen += token_indices.tolist()
    assert len(seen) == len(set(seen))
    assert seen
