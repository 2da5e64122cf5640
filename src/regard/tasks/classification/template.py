"""Prompt templates: text with columns of a row in braces, truncated where the row is too long.

    "{passage}\\nQuestion: {question}?\\nAnswer:"      fields: passage, question

Where a row has too many tokens, its longest field is truncated at its end until another is as long,
then both are; the template's own text is never truncated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import Formatter

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class FilledTemplate:
    """A template filled with a row's columns, as tokens."""

    ids: list[int]
    truncated: int
    "Number of tokens cut off."


@dataclass(frozen=True)
class Template:
    """The text around the columns of a row."""

    text: str

    def __post_init__(self) -> None:
        try:
            pieces = list(Formatter().parse(self.text))
        except ValueError as problem:
            raise ValueError(
                f"{self.text!r} is not a template ({problem}); double a literal brace"
            ) from None
        for _, field, form, conversion in pieces:
            if field is not None and (not field or form or conversion):
                raise ValueError(f"{self.text!r}: write the name of a column alone, {{text}}")
        if not self.fields:
            raise ValueError(f"{self.text!r} names no column; write one in braces, {{text}}")

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The columns it names, in order of appearance."""
        named = (field for _, field, _, _ in Formatter().parse(self.text) if field is not None)
        return tuple(dict.fromkeys(named))

    def render(self, values: Mapping[str, str]) -> str:
        """The template with its columns filled in; braces in a value are literal."""
        return "".join(
            literal + ("" if field is None else values[field])
            for literal, field, _, _ in Formatter().parse(self.text)
        )

    def fill(
        self, values: Mapping[str, str], tokenizer: Tokenizer, *, max_tokens: int
    ) -> FilledTemplate:
        """The tokens of the rendered text, at most `max_tokens`."""
        kept = {field: values[field] for field in self.fields}
        ids = tokenizer.encode(self.render(kept))
        full_length = len(ids)
        # Tokens at a cut may merge differently, so the length is checked again.
        while len(ids) > max_tokens:
            if not any(kept.values()):
                raise UserError(
                    f"task.template alone has {len(ids)} tokens where model.context leaves "
                    f"{max_tokens}",
                    topic="recipe",
                    hint="Shorten it, or raise model.context.",
                )
            kept = _truncate_fields(kept, tokenizer, by=len(ids) - max_tokens)
            ids = tokenizer.encode(self.render(kept))
        return FilledTemplate(ids, full_length - len(ids))


def _truncate_fields(values: Mapping[str, str], tokenizer: Tokenizer, *, by: int) -> dict[str, str]:
    """The values with at least `by` fewer tokens in total, the longest truncated to one length."""
    token_begins = {
        field: [begin for begin, _ in tokenizer.encode_with_offsets(value)[1]]
        for field, value in values.items()
    }
    lengths = [len(begins) for begins in token_begins.values()]
    remaining = max(0, sum(lengths) - by)
    max_length = max(lengths) - 1
    while max_length > 0 and sum(min(n, max_length) for n in lengths) > remaining:
        max_length -= 1
    return {
        field: _truncate(value, token_begins[field], max_length=max_length)
        for field, value in values.items()
    }


def _truncate(value: str, token_begins: Sequence[int], *, max_length: int) -> str:
    """The first `max_length` tokens of a value, by the characters at which its tokens begin."""
    if not token_begins:
        return ""  # white space without a token of its own
    if len(token_begins) <= max_length:
        return value
    # Several tokens may encode one character: at least that character is dropped.
    return value[: min(token_begins[max_length], len(value) - 1)]
