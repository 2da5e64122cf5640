"""Spans of whole words: the law of their lengths, one fate a span, ends outside it, the budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objectives.shelf import PLAIN, ids_of, kinds, plain_row, row_of, seeds, texts, vocabulary

from regard.objectives.spanbert import SpanBert
from regard.objectives.words import words_of


def runs_of(chosen: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(chosen.astype(int), prepend=0, append=0))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def test_the_law_of_lengths_is_cut_off_and_renormalised():
    law = SpanBert().lengths_law()
    assert len(law) == 10
    assert law.sum() == pytest.approx(1)
    assert law[1:] / law[:-1] == pytest.approx(np.full(9, 0.8))
    mean = law @ np.arange(1, 11)
    assert mean == pytest.approx(5 - 10 * 0.8**10 / (1 - 0.8**10))  # in closed form
    assert round(mean, 2) == 3.80
    piled = 0.2 * 0.8 ** np.arange(10)
    piled[9] += 0.8**10
    assert round(piled @ np.arange(1, 11), 2) == 4.46  # what a cut instead of a redraw would give


def test_spans_are_as_long_as_the_law_says():
    # A single span a row, in a long row, is cut neither by the budget nor by another.
    generator = np.random.default_rng(0)
    row = words_of(plain_row(4000).ids, PLAIN)
    sizes = [size for _ in range(40) for size in _sizes(row, generator)]
    law = SpanBert().lengths_law()
    seen = np.bincount(sizes, minlength=11)[1:] / len(sizes)
    assert abs(np.mean(sizes) - law @ np.arange(1, 11)) < 0.3
    assert np.abs(seen - law).max() < 0.04


def _sizes(row, generator) -> list[int]:
    drawn = SpanBert(share=0.01).drawn_spans(row, generator)
    return [span.size for span in drawn]


@given(kind=kinds, text=texts, share=st.floats(0.05, 0.5), seed=seeds)
def test_whole_words_within_the_budget_and_apart(kind, text, share, seed):
    row, known = row_of(text, kind), vocabulary(kind)
    objective = SpanBert(share=share)
    example = objective.example(row, np.random.default_rng(seed), vocabulary=known)
    chosen = example.weights > 0
    words = words_of(row.ids[:-1], known)
    parts = [chosen[slice(*span)] for span in words.spans()]
    assert all(part.all() or not part.any() for part in parts)
    sizes = words.ends - words.begins
    assert 0 < chosen.sum() <= max(objective.budget(int(sizes.sum())), sizes.max())
    assert np.array_equal(example.targets, row.ids[:-1])
    assert np.array_equal(example.inputs[~chosen], row.ids[:-1][~chosen])


@given(length=st.integers(1, 80), seed=seeds)
def test_labels_name_each_hidden_token_and_the_ends_outside_its_span(length, seed):
    row = plain_row(length, seed)
    example = SpanBert().example(row, np.random.default_rng(seed), vocabulary=PLAIN)
    chosen = example.weights > 0
    labels = example.labels.reshape(-1, 3)
    expected = [
        (place, begin - 1, end)
        for begin, end in runs_of(chosen)
        if begin > 0 and end < len(chosen)
        for place in range(begin, end)
    ]
    assert [tuple(one) for one in labels.tolist()] == expected
    assert not chosen[labels[:, 1:]].any()  # the ends themselves are in sight


def test_a_span_has_one_fate():
    fates = {"mask": 0, "random": 0, "kept": 0}
    for seed in range(300):
        row = plain_row(60, seed)
        example = SpanBert().example(row, np.random.default_rng(seed), vocabulary=PLAIN)
        for begin, end in runs_of(example.weights > 0):
            given_now, true = example.inputs[begin:end], example.targets[begin:end]
            if (given_now == PLAIN.mask).any():
                assert (given_now == PLAIN.mask).all()
                fates["mask"] += 1
            else:
                fates["kept" if np.array_equal(given_now, true) else "random"] += 1
    spans = sum(fates.values())
    assert abs(fates["mask"] / spans - 0.8) < 0.05
    assert abs(fates["random"] / spans - 0.1) < 0.04


def test_the_share_is_kept_over_many_rows():
    shares = [
        SpanBert()
        .example(plain_row(200, seed), np.random.default_rng(seed), vocabulary=PLAIN)
        .weights.mean()
        for seed in range(60)
    ]
    assert abs(np.mean(shares) - 0.15) < 0.005


def test_spans_do_not_cross_documents():
    ids = np.concatenate((ids_of(20), [3, 2], ids_of(20, 1)))
    words = words_of(ids, PLAIN)
    for seed in range(50):
        spans = SpanBert(share=0.5).drawn_spans(words, np.random.default_rng(seed))
        assert not any(span.begin < 20 < span.end for span in spans)


@given(length=st.integers(1, 60), context=st.integers(2, 20))
def test_measured_tokens_are_those_that_are_named(length, context):
    ids = ids_of(length)
    wrapped = np.concatenate((ids, [3]))
    seen: list[int] = []
    for row, tells in SpanBert().scored(
        ids, np.random.default_rng(0), context=context, vocabulary=PLAIN
    ):
        assert np.array_equal(row.targets[row.weights > 0], wrapped[tells])
        seen += tells.tolist()
    assert len(seen) == len(set(seen))
    assert seen
