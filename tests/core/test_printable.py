"""Text as it is shown: control characters visible, long texts cut, wide characters counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.printable import escape_unprintable, first_few, terminal_width, truncate


@given(st.text(), st.integers(1, 30))
def test_a_cut_text_has_its_length_and_says_that_it_is_cut(text: str, length: int) -> None:
    shown = truncate(text, length)
    assert len(shown) <= length
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))
    assert (shown == text) == (len(text) <= length)


@given(st.text())
def test_escaped_text_is_printable(text: str) -> None:
    assert all(character.isprintable() for character in escape_unprintable(text))


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("漢字", 4), ("e\u0301", 1), ("", 0), ("a漢", 3)]
)
def test_columns_of_a_terminal(text: str, width: int) -> None:
    assert terminal_width(text) == width


def test_the_first_few_names() -> None:
    assert first_few(["a", "b"], 2) == "a, b"
    assert first_few(["a", "b", "c"], 2) == "a, b, …"
    assert escape_unprintable("a\nb\x1b[0mé") == r"a\nb\x1b[0mé"
