"""Salient-span recall: the head comes first, the span last, and only the span has loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objectives.toy_data import encode_row, kinds, seeds, texts, tokenizer, vocabulary

from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.objectives.salient import Salient
from regard.objectives.salient_spans import first_sentence_length, name_spans, salient_spans
from regard.objectives.words import find_words

TEXT = "Ada Kim. Kim was born on 3 April 1920 in New York City, London ."


def split_row(example, vocab):
    """Fillers, head and words before, words after, span; all as ids."""
    row = np.append(example.inputs, example.targets[-1])
    begin = int(np.flatnonzero(row == vocab.start)[0])
    first, second = np.flatnonzero(row == vocab.mask)
    assert row[-1] == vocab.stop
    return row[:begin], row[begin + 1 : first], row[first + 1 : second], row[second + 1 : -1]


def is_substring(needle: np.ndarray, haystack: np.ndarray) -> bool:
    starts = range(len(haystack) - len(needle) + 1)
    return any(np.array_equal(haystack[i : i + len(needle)], needle) for i in starts)


@given(
    kind=kinds,
    text=texts,
    spans=st.sampled_from(["names", "salient", "random"]),
    drop=st.sampled_from([0.0, 0.3, 1.0]),
    shift=st.integers(0, 20),
    context=st.integers(8, 160),
    seed=seeds,
)
def test_row_layout_and_loss_on_the_span_only(kind, text, spans, drop, shift, context, seed):
    vocab, document = vocabulary(kind), encode_row(text, kind, context=context)
    objective = Salient(spans=spans, drop=drop, shift=shift)
    example = objective.example(document, np.random.default_rng(seed), vocabulary=vocab)
    assert len(example.inputs) <= context
    filler, _, after, span = split_row(example, vocab)
    assert (filler == vocab.filler).all()
    assert len(filler) <= shift
    scored = example.targets[example.weights > 0]
    assert np.array_equal(scored, np.append(span, vocab.stop))
    assert len(span)
    assert is_substring(span, document.ids)
    if drop == 1.0:
        assert not len(after)
    again = objective.example(document, np.random.default_rng(seed), vocabulary=vocab)
    assert np.array_equal(example.inputs, again.inputs)


@given(kind=kinds, text=texts, seed=seeds)
def test_head_is_the_first_sentence_and_span_a_name_outside_it(kind, text, seed):
    vocab, document = vocabulary(kind), encode_row(text, kind, context=400)
    words = find_words(document.ids[1:-1], vocab)
    head = first_sentence_length(words)
    example = Salient(drop=0.0).example(document, np.random.default_rng(seed), vocabulary=vocab)
    _, before, _, span = split_row(example, vocab)
    edge = int(words.ends[head - 1])
    assert np.array_equal(before[:edge], words.ids[:edge])
    names = [words.ids[slice(*words.tokens(run))] for run in name_spans(words) if run.begin >= head]
    assert any(np.array_equal(span, name) for name in names)
    assert not set(find_words(span, vocab).texts) <= set(words.texts[:head])


def test_masked_names_and_their_context_in_an_example():
    vocab, document = vocabulary("unigram"), encode_row(TEXT, "unigram", context=64)
    masked, contexts = set(), set()
    for seed in range(40):
        objective = Salient(shift=0, drop=0.0, before=2, after=1)
        example = objective.example(document, np.random.default_rng(seed), vocabulary=vocab)
        _, before, after, span = split_row(example, vocab)
        decode = tokenizer("unigram").decode
        masked.add(decode(span).strip())
        contexts.add((decode(before).strip(), decode(after).strip()))
    assert masked == {"New York City", "London"}
    assert contexts == {("Ada Kim. 1920 in", ","), ("Ada Kim. City,", ".")}


def test_spans_with_a_cue_are_drawn_more_often():
    vocab, document = vocabulary("bpe"), encode_row(TEXT, "bpe", context=64)
    rates = {}
    for cue_weight in (1.0, 3.0, 0.0):
        generator = np.random.default_rng(0)
        objective = Salient(cue_weight=cue_weight)
        drawn = [
            len(split_row(objective.example(document, generator, vocabulary=vocab), vocab)[3])
            for _ in range(800)
        ]
        longest = max(drawn)  # New York City, which has a cue, has more tokens than London
        rates[cue_weight] = np.mean([size == longest for size in drawn]) if cue_weight else drawn
    assert abs(rates[1.0] - 1 / 2) < 0.06
    assert abs(rates[3.0] - 3 / 4) < 0.06
    assert len(set(rates[0.0])) == 1


def test_shift_is_uniform_and_can_be_disabled():
    vocab, document = vocabulary("bpe"), encode_row(TEXT, "bpe", context=64)
    generator = np.random.default_rng(0)

    def shifts(maximum: int) -> list[int]:
        objective = Salient(shift=maximum)
        return [
            len(split_row(objective.example(document, generator, vocabulary=vocab), vocab)[0])
            for _ in range(600)
        ]

    assert set(shifts(0)) == {0}
    assert set(shifts(5)) == set(range(6))
    assert abs(np.mean(shifts(5)) - 2.5) < 0.25


def test_document_without_a_salient_span_masks_random_words():
    vocab = vocabulary("bpe")
    for text in ("nothing has a name here at all .", "Kim. Kim was Kim .", "Kim.", "a"):
        document = encode_row(text, "bpe", context=64)
        for seed in range(20):
            example = Salient().example(document, np.random.default_rng(seed), vocabulary=vocab)
            span = split_row(example, vocab)[3]
            assert 1 <= len(find_words(span, vocab)) <= 3
            assert is_substring(span, document.ids)


def test_row_that_continues_a_document_has_no_head():
    vocab = vocabulary("bpe")
    document = Document(encode_row(TEXT, "bpe").ids[1:], context=64)
    example = Salient(drop=0.0, before=1).example(
        document, np.random.default_rng(0), vocabulary=vocab
    )
    assert len(find_words(split_row(example, vocab)[1], vocab)) <= 1


@given(kind=kinds, text=texts, context=st.integers(8, 60), seed=seeds)
def test_scored_targets_are_the_indexed_tokens(kind, text, context, seed):
    vocab, ids = vocabulary(kind), encode_row(text, kind).ids[1:-1]
    [(row, token_indices)] = Salient(spans="salient").evaluation_examples(
        ids, np.random.default_rng(seed), context=context, vocabulary=vocab
    )
    assert np.array_equal(row.targets[row.weights > 0], ids[token_indices])
    assert len(row.inputs) <= context
    assert len(token_indices) == len(set(token_indices.tolist())) > 0
    words = find_words(ids, vocab)
    assert any(words.tokens(span).begin == token_indices[0] for span in salient_spans(words))


def test_short_context_is_refused():
    with pytest.raises(UserError, match=r"model\.context = 6 .*salient.*= 8 or more"):
        Salient().example(
            encode_row(TEXT, "bpe", context=6),
            np.random.default_rng(0),
            vocabulary=vocabulary("bpe"),
        )
