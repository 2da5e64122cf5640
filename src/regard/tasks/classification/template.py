"""A template: a text with named places for the columns of a row, cut where it does not fit.

    "{passage}\\nQuestion: {question}?\\nAnswer:"      fields: passage, question

Where a row has more tokens than there is room, its longest field loses from its end until another
is as long, then both do; what the template itself says always stays.
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
    """A template with a row's columns in it, as tokens."""

    ids: list[int]
    lost: int
    "Tokens that it had no room for."


@dataclass(frozen=True)
class Template:
    """What stands around the columns of a row."""

    text: str

    def __post_init__(self) -> None:
        try:
            pieces = list(Formatter().parse(self.text))
        except ValueError as problem:
            raise ValueError(
                f"{self.text!r} is no template ({problem}); a brace that is meant is doubled"
            ) from None
        for _, field, form, conversion in pieces:
            if field is not None and (not field or form or conversion):
                raise ValueError(f"{self.text!r}: write the name of a column alone, {{text}}")
        if not self.fields:
            raise ValueError(f"{self.text!r} names no column; write one in braces, {{text}}")

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The columns it names, in the order in which they stand."""
        named = (field for _, field, _, _ in Formatter().parse(self.text) if field is not None)
        return tuple(dict.fromkeys(named))

    def rendered(self, values: Mapping[str, str]) -> str:
        """The whole text; braces in a value are text."""
        return "".join(
            literal + ("" if field is None else values[field])
            for literal, field, _, _ in Formatter().parse(self.text)
        )

    def filled(
        self, values: Mapping[str, str], tokenizer: Tokenizer, *, room: int
    ) -> FilledTemplate:
        """The tokens of the text, `room` of them at most."""
        kept = {field: values[field] for field in self.fields}
        ids = tokenizer.encode(self.rendered(kept))
        whole = len(ids)
        # Pieces at the edge of a cut may join otherwise than before, so it is looked at again.
        while len(ids) > room:
            if not any(kept.values()):
                raise UserError(
                    f"task.template alone has {len(ids)} tokens where model.context leaves room "
                    f"for {room}",
                    topic="recipe",
                    hint="Shorten it, or raise model.context.",
                )
            kept = _shortened(kept, tokenizer, by=len(ids) - room)
            ids = tokenizer.encode(self.rendered(kept))
        return FilledTemplate(ids, whole - len(ids))


def _shortened(values: Mapping[str, str], tokenizer: Tokenizer, *, by: int) -> dict[str, str]:
    """The values with at least so many tokens less, all cut to one length but those below it."""
    begins = {
        field: [begin for begin, _ in tokenizer.encode_with_offsets(value)[1]]
        for field, value in values.items()
    }
    lengths = [len(places) for places in begins.values()]
    room = max(0, sum(lengths) - by)
    most = max(lengths) - 1
    while most > 0 and sum(min(n, most) for n in lengths) > room:
        most -= 1
    return {field: _first(value, begins[field], most=most) for field, value in values.items()}


def _first(value: str, begins: Sequence[int], *, most: int) -> str:
    """As much of a value as `most` tokens hold, by the characters at which its tokens begin."""
    if not begins:
        return ""  # blank: no token, and yet no room for it
    if len(begins) <= most:
        return value
    # Several tokens may stand for one character: at least that one goes.
    return value[: min(begins[most], len(value) - 1)]
