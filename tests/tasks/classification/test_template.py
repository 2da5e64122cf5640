"""Prompt templates: columns are substituted, literal braces kept, the longest column truncated."""

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


def test_render_substitutes_columns_and_keeps_literal_braces() -> None:
    template = Template("{{x}} {b}, {a}; {b}")
    assert template.fields == ("b", "a")
    assert template.render({"a": "{c}", "b": "two", "more": "?"}) == "{x} two, {c}; two"


@pytest.mark.parametrize("text", ["no column", "{", "{}", "{a!r}", "{a:>4}", ""])
def test_malformed_templates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"column|not a template"):
        Template(text)


def fill(max_tokens: int, **values: str) -> tuple[str, int]:
    filled = QUESTION.fill(values, words, max_tokens=max_tokens)
    return " ".join(words.tokens(filled.ids)), filled.truncated


def test_the_longest_column_is_truncated_first() -> None:
    assert fill(9, passage="a b c d e", question="f g") == ("a b c d e q : f g", 0)
    assert fill(7, passage="a b c d e", question="f g") == ("a b c q : f g", 2)
    assert fill(5, passage="a b c d e", question="f g") == ("a q : f", 5)
    assert fill(3, passage="a", question="b c d e f") == ("q :", 6)


def test_a_template_longer_than_the_context_is_refused() -> None:
    with pytest.raises(UserError, match=r"task\.template alone .* 2 tokens .* 1"):
        fill(1, passage="a b", question="c")


@given(st.text(), st.text(), st.integers(2, 40))
def test_fill_fits_and_counts_truncated_tokens(a: str, b: str, max_tokens: int) -> None:
    template, values = Template("{a}{b}"), {"a": a, "b": b}
    filled = template.fill(values, bytes_bpe, max_tokens=max_tokens)
    full_length = len(bytes_bpe.encode(a + b))
    assert len(filled.ids) <= max_tokens
    assert len(filled.ids) + filled.truncated == full_length
    assert (full_length <= max_tokens) == (filled.truncated == 0)
