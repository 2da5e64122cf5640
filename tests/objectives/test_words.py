"""Word boundaries are found from tokens alone, whatever the tokenizer."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objectives.toy_data import KINDS, PLAIN, encode_row, kinds, texts, tokenizer, vocabulary

from regard.objectives.words import Span, choose_within_budget, covered_positions, find_words


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_a_sentence(kind):
    text = "Jean-Paul Marat. Jean-Paul Marat (Boudry) was a painter's friend"
    words = find_words(encode_row(text, kind).ids, vocabulary(kind)).texts
    joined = ["Jean-Paul", "painter's"] if kind not in ("word", "wordpiece") else ["Marat"]
    assert set(joined) <= set(words)
    assert {"Marat", ".", "(", "Boudry", ")", "was", "a", "friend"} <= set(words)
    assert "".join(words) == text.replace(" ", "")


@given(kind=kinds, text=texts)
def test_words_cover_the_text_and_no_special_token(kind, text):
    row, vocab = encode_row(text, kind).ids, vocabulary(kind)
    words = find_words(row, vocab)
    assert np.array_equal(covered_positions(words.spans()), np.flatnonzero(~vocab.is_special[row]))
    assert (words.begins[1:] >= words.ends[:-1]).all()
    assert (words.ends > words.begins).all()
    assert not words.follows[0]
    assert all(words.follows[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_separate_words(kind):
    vocab = vocabulary(kind)
    london = tokenizer(kind).encode("London")
    words = find_words(np.array([*london, vocab.stop, vocab.start, *london]), vocab)
    assert words.texts == ("London", "London")
    assert words.follows == (False, False)


def test_without_pieces_every_token_is_a_word():
    words = find_words(np.array([2, 10, 11, 12, 3]), PLAIN)
    assert words.spans() == [Span(1, 2), Span(2, 3), Span(3, 4)]


def test_half_a_character_does_not_end_a_word():
    words = find_words(np.array(tokenizer("bpe").encode("a Zoë b")), vocabulary("bpe"))
    assert words.texts[0::2] == ("a", "b")
    assert len(words) == 3


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    budget=st.integers(1, 40),
)
def test_chosen_spans_fill_the_budget_greedily(sizes, budget):
    edges = np.concatenate(([0], np.cumsum(sizes))).tolist()
    spans = [Span(*edge) for edge in pairwise(edges)]
    chosen = choose_within_budget(spans, budget=budget)
    total = sum(span.size for span in chosen)
    if total > budget:
        assert chosen == spans[:1]
        assert min(sizes) > budget
    else:
        assert all(total + span.size > budget for span in spans if span not in chosen)


def test_overlapping_spans_are_not_both_chosen():
    chosen = choose_within_budget([Span(0, 3), Span(2, 4), Span(4, 5)], budget=9)
    assert chosen == [Span(0, 3), Span(4, 5)]
