"""Normalisation: what makes no difference between texts, and what does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.overlap.normalise import normalise

PLAIN = "the cat's café is 30 well known to us"


@pytest.mark.parametrize(
    "text",
    [
        "The Cat's CAFÉ is 30 well known to us.",
        "the, cat's, café, is, 30, well, known, to, us,",
        "  the\tcat’s\u00a0cafe\u0301 is 30\nwell-known  to us",
        "«the cat's café» (is $30) — well_known… to us!",
        "ｔｈｅ cat's ca\u00adfé\u200b is ３０ well known to us",
        "*the* `cats` café is #30 well~known to us",
        "\u0442\u043d\u0435 c\u0430t's c\u0430fé i\u0455 30 w\u0435ll kn\u043ewn t\u043e u\u0455",
        "&quot;the&nbsp;cat&#39;s caf&eacute; is 30 &lt; well&#8211;known to us&quot;",
    ],
)
def test_the_same_words(text: str) -> None:
    assert normalise(text) == normalise(PLAIN)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("12*3", "12/3"),
        ("12 - 3", "12 + 3"),
        ("good 👍", "good 👎"),
        ("(()())", "((()))"),
        ("cote", "côte"),
        ("ab", "a b"),
        ("1 &lt; 2", "1 &gt; 2"),
        ("1.5", "15"),
    ],
)
def test_other_words(first: str, second: str) -> None:
    assert normalise(first) != normalise(second)


def test_letters_of_another_script_that_look_alike() -> None:
    word = "cлово"  # with a Latin c
    assert normalise(f"Он сказал: {word}, Paris") == "он сказал слово paris"
    assert normalise("Он и Paris") == "он и paris"


def test_scripts_without_spaces_have_a_word_a_character() -> None:
    assert normalise("今日は、東京です。").split() == list("今日は東京です")


@given(st.text())
def test_normalised_twice_is_normalised_once(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)
