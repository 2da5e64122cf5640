"""Templates: columns in their places, braces that are text, and the longest that gives way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.word import Word
from regard.tasks.classification.template import Template

words = Word(minimum_count=1).train(iter(["a b c d e f g q : {"]))
bytes_bpe = Bpe(vocabulary=263).train(iter(["the cat sat"]))
QUESTION = Template("{passage} q : {question}")


def test_columns_stand_where_they_are_named() -> None:
    template = Template("{{x}} {b}, {a}; {b}")
    assert template.fields == ("b", "a")
    assert template.rendered({"a": "{c}", "b": "two", "more": "?"}) == "{x} two, {c}; two"


@pytest.mark.parametrize("text", ["no column", "{", "{}", "{a!r}", "{a:>4}", ""])
def test_what_is_no_template(text: str) -> None:
    with pytest.raises(ValueError, match=r"column|no template"):
        Template(text)


def filled(room: int, **values: str) -> tuple[str, int]:
    found = QUESTION.filled(values, words, room=room)
    return " ".join(words.tokens(found.ids)), found.lost


def test_the_longest_column_loses_first() -> None:
    assert filled(9, passage="a b c d e", question="f g") == ("a b c d e q : f g", 0)
    assert filled(7, passage="a b c d e", question="f g") == ("a b c q : f g", 2)
    assert filled(5, passage="a b c d e", question="f g") == ("a q : f", 5)
    assert filled(3, passage="a", question="b c d e f") == ("q :", 6)


def test_a_template_without_room_says_so() -> None:
    with pytest.raises(UserError, match=r"task.template alone has 2 tokens .* room for 1"):
        filled(1, passage="a b", question="c")


@given(st.text(), st.text(), st.integers(2, 40))
def test_it_always_fits_and_what_is_lost_is_counted(a: str, b: str, room: int) -> None:
    template, values = Template("{a}{b}"), {"a": a, "b": b}
    found = template.filled(values, bytes_bpe, room=room)
    whole = len(bytes_bpe.encode(a + b))
    assert len(found.ids) <= room
    assert len(found.ids) + found.lost == whole
    assert (whole <= room) == (found.lost == 0)
