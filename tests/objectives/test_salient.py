"""Recall: the head stands first, the span last, and only the span counts, shifted or not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objectives.shelf import kinds, row_of, seeds, texts, tokenizer, vocabulary

from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.objectives.salient import Salient
from regard.objectives.salient_spans import first_sentence, name_runs, salient_spans
from regard.objectives.words import words_of

TEXT = "Ada Kim. Kim was born on 3 April 1920 in New York City, London ."


def parts_of(example, known):
    """Fillers, head and words before, words after, span; all as ids."""
    row = np.append(example.inputs, example.targets[-1])
    begin = int(np.flatnonzero(row == known.start)[0])
    first, second = np.flatnonzero(row == known.mask)
    assert row[-1] == known.stop
    return row[:begin], row[begin + 1 : first], row[first + 1 : second], row[second + 1 : -1]


def inside(some: np.ndarray, whole: np.ndarray) -> bool:
    """Whether the one stands in the other without a gap."""
    starts = range(len(whole) - len(some) + 1)
    return any(np.array_equal(whole[i : i + len(some)], some) for i in starts)


@given(
    kind=kinds,
    text=texts,
    spans=st.sampled_from(["names", "salient", "random"]),
    drop=st.sampled_from([0.0, 0.3, 1.0]),
    shift=st.integers(0, 20),
    context=st.integers(8, 160),
    seed=seeds,
)
def test_rows_have_their_form_and_only_the_span_counts(
    kind, text, spans, drop, shift, context, seed
):
    known, document = vocabulary(kind), row_of(text, kind, context=context)
    objective = Salient(spans=spans, drop=drop, shift=shift)
    example = objective.example(document, np.random.default_rng(seed), vocabulary=known)
    assert len(example.inputs) <= context
    filler, _, after, span = parts_of(example, known)
    assert (filler == known.filler).all()
    assert len(filler) <= shift
    told = example.targets[example.weights > 0]
    assert np.array_equal(told, np.append(span, known.stop))
    assert len(span)
    assert inside(span, document.ids)
    if drop == 1.0:
        assert not len(after)
    again = objective.example(document, np.random.default_rng(seed), vocabulary=known)
    assert np.array_equal(example.inputs, again.inputs)


@given(kind=kinds, text=texts, seed=seeds)
def test_the_head_is_the_first_sentence_and_the_span_a_name_outside_it(kind, text, seed):
    known, document = vocabulary(kind), row_of(text, kind, context=400)
    words = words_of(document.ids[1:-1], known)
    head = first_sentence(words)
    example = Salient(drop=0.0).example(document, np.random.default_rng(seed), vocabulary=known)
    _, given_first, _, span = parts_of(example, known)
    edge = int(words.ends[head - 1])
    assert np.array_equal(given_first[:edge], words.ids[:edge])
    asked = [words.ids[slice(*words.tokens(run))] for run in name_runs(words) if run.begin >= head]
    assert any(np.array_equal(span, one) for one in asked)
    assert not set(words_of(span, known).texts) <= set(words.texts[:head])


def test_the_example_of_the_file():
    known, document = vocabulary("unigram"), row_of(TEXT, "unigram", context=64)
    asked, given_first = set(), set()
    for seed in range(40):
        objective = Salient(shift=0, drop=0.0, before=2, after=1)
        example = objective.example(document, np.random.default_rng(seed), vocabulary=known)
        _, before, after, span = parts_of(example, known)
        decode = tokenizer("unigram").decode
        asked.add(decode(span).strip())
        given_first.add((decode(before).strip(), decode(after).strip()))
    assert asked == {"New York City", "London"}
    assert given_first == {("Ada Kim. 1920 in", ","), ("Ada Kim. City,", ".")}


def test_introduced_spans_are_drawn_oftener():
    known, document = vocabulary("bpe"), row_of(TEXT, "bpe", context=64)
    counts = {}
    for favour in (1.0, 3.0, 0.0):
        generator = np.random.default_rng(0)
        objective = Salient(favour=favour)
        drawn = [
            len(parts_of(objective.example(document, generator, vocabulary=known), known)[3])
            for _ in range(800)
        ]
        longest = max(drawn)  # New York City, the introduced one, has more tokens than London
        counts[favour] = np.mean([size == longest for size in drawn]) if favour else drawn
    assert abs(counts[1.0] - 1 / 2) < 0.06
    assert abs(counts[3.0] - 3 / 4) < 0.06
    assert len(set(counts[0.0])) == 1


def test_shift_is_uniform_and_can_be_switched_off():
    known, document = vocabulary("bpe"), row_of(TEXT, "bpe", context=64)
    generator = np.random.default_rng(0)

    def shifts(most: int) -> list[int]:
        objective = Salient(shift=most)
        return [
            len(parts_of(objective.example(document, generator, vocabulary=known), known)[0])
            for _ in range(600)
        ]

    assert set(shifts(0)) == {0}
    assert set(shifts(5)) == set(range(6))
    assert abs(np.mean(shifts(5)) - 2.5) < 0.25


def test_a_document_without_a_salient_span_hides_some_words():
    known = vocabulary("bpe")
    for text in ("nothing has a name here at all .", "Kim. Kim was Kim .", "Kim.", "a"):
        document = row_of(text, "bpe", context=64)
        for seed in range(20):
            example = Salient().example(document, np.random.default_rng(seed), vocabulary=known)
            span = parts_of(example, known)[3]
            assert 1 <= len(words_of(span, known)) <= 3
            assert inside(span, document.ids)


def test_a_row_that_goes_on_with_a_document_has_no_head():
    known = vocabulary("bpe")
    document = Document(row_of(TEXT, "bpe").ids[1:], context=64)
    example = Salient(drop=0.0, before=1).example(
        document, np.random.default_rng(0), vocabulary=known
    )
    assert len(words_of(parts_of(example, known)[1], known)) <= 1


@given(kind=kinds, text=texts, context=st.integers(8, 60), seed=seeds)
def test_measured_tokens_are_those_that_are_named(kind, text, context, seed):
    known, ids = vocabulary(kind), row_of(text, kind).ids[1:-1]
    [(row, tells)] = Salient(spans="salient").scored(
        ids, np.random.default_rng(seed), context=context, vocabulary=known
    )
    assert np.array_equal(row.targets[row.weights > 0], ids[tells])
    assert len(row.inputs) <= context
    assert len(tells) == len(set(tells.tolist())) > 0
    words = words_of(ids, known)
    assert any(words.tokens(span).begin == tells[0] for span in salient_spans(words))


def test_a_context_without_room_is_refused():
    with pytest.raises(UserError, match=r"model\.context = 6 has no room.*salient.*= 8 or more"):
        Salient().example(
            row_of(TEXT, "bpe", context=6), np.random.default_rng(0), vocabulary=vocabulary("bpe")
        )
