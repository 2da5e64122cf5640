"""Words are found from tokens alone, whatever cut the text into them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objectives.shelf import KINDS, PLAIN, kinds, row_of, texts, tokenizer, vocabulary

from regard.objectives.words import Span, chosen_within, places_of, words_of


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_a_sentence(kind):
    text = "Jean-Paul Marat. Jean-Paul Marat (Boudry) was a painter's friend"
    words = words_of(row_of(text, kind).ids, vocabulary(kind)).texts
    joined = ["Jean-Paul", "painter's"] if kind not in ("word", "wordpiece") else ["Marat"]
    assert set(joined) <= set(words)
    assert {"Marat", ".", "(", "Boudry", ")", "was", "a", "friend"} <= set(words)
    assert "".join(words) == text.replace(" ", "")


@given(kind=kinds, text=texts)
def test_words_cover_the_text_and_no_special(kind, text):
    row, known = row_of(text, kind).ids, vocabulary(kind)
    words = words_of(row, known)
    assert np.array_equal(places_of(words.spans()), np.flatnonzero(~known.is_special[row]))
    assert (words.begins[1:] >= words.ends[:-1]).all()
    assert (words.ends > words.begins).all()
    assert not words.follows[0]
    assert all(words.follows[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_special_token_parts_words(kind):
    known = vocabulary(kind)
    piece = tokenizer(kind).encode("London")
    words = words_of(np.array([*piece, known.stop, known.start, *piece]), known)
    assert words.texts == ("London", "London")
    assert words.follows == (False, False)


def test_without_pieces_every_token_is_a_word():
    words = words_of(np.array([2, 10, 11, 12, 3]), PLAIN)
    assert words.spans() == [Span(1, 2), Span(2, 3), Span(3, 4)]


def test_half_a_character_does_not_end_a_word():
    known = vocabulary("bpe")
    ids = np.array(tokenizer("bpe").encode("a Zoë b"))
    assert words_of(ids, known).texts[0::2] == ("a", "b")
    assert len(words_of(ids, known)) == 3


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    budget=st.integers(1, 40),
)
def test_chosen_groups_fit_and_as_much_as_possible_is_chosen(sizes, budget):
    edges = np.concatenate(([0], np.cumsum(sizes))).tolist()
    groups = [Span(*edge) for edge in pairwise(edges)]
    chosen = chosen_within(groups, budget=budget)
    total = sum(group.size for group in chosen)
    if total > budget:
        assert chosen == groups[:1]
        assert min(sizes) > budget
    else:
        assert all(total + group.size > budget for group in groups if group not in chosen)


def test_groups_that_share_a_token_are_not_both_chosen():
    assert chosen_within([Span(0, 3), Span(2, 4), Span(4, 5)], budget=9) == [Span(0, 3), Span(4, 5)]
