"""Long passages in overlapping windows, and the way between characters and tokens.

    [CLS] question [SEP] tokens 0 … r−1 [SEP]
    [CLS] question [SEP] tokens s … s+r−1 [SEP]        r = context − 3 − question,  s ≤ r the stride

The last window is moved back until it is full. Every run of at most r − s + 1 tokens stands whole
in some window. A question has at most half of the room; what is cut off it is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.core.errors import UserError
from regard.data.special_tokens import InputSequence, sequence_pair
from regard.data.tokenizers.tokenizer import Tokenizer

SPECIALS = 3
FEWEST_TOKENS = 2
"Of question and passage, without which a row says nothing."

Span = tuple[int, int]


@dataclass(frozen=True)
class TokenizedPassage:
    """A text in tokens that know where in it they stand."""

    text: str
    ids: tuple[int, ...]
    offsets: tuple[Span, ...]
    "Characters of each token, the end excluded; neighbours may share some."

    @classmethod
    def of(cls, text: str, tokenizer: Tokenizer) -> TokenizedPassage:
        ids, offsets = tokenizer.encode_with_offsets(text)
        return cls(text, tuple(ids), tuple(offsets))

    def tokens_of(self, begin: int, end: int) -> Span | None:
        """First and last token of the smallest run that covers these characters; None where no
        token holds any of them."""
        touched = [
            number
            for number, (first, after) in enumerate(self.offsets)
            if first < end and after > begin
        ]
        return (touched[0], touched[-1]) if touched else None

    def characters_of(self, first: int, last: int) -> Span:
        """Where the tokens from `first` to `last` begin and end, white space around them left
        out; the end is excluded."""
        begin, end = self.offsets[first][0], self.offsets[last][1]
        inside = self.text[begin:end]
        begin += len(inside) - len(inside.lstrip())
        return begin, begin + len(inside.strip())


@dataclass(frozen=True)
class PassageWindow:
    """A row that holds some of a passage."""

    packed: InputSequence
    begin: int
    "Number of the passage's token that stands first in it."
    tokens: int
    "How many it holds."

    @property
    def _first_place(self) -> int:
        return len(self.packed.ids) - self.tokens - 1

    def places_of(self, span: Span) -> Span | None:
        """Where tokens of the passage stand in the row; None where they are not all in it."""
        first, last = span
        if first < self.begin or last >= self.begin + self.tokens:
            return None
        shift = self._first_place - self.begin
        return first + shift, last + shift

    def tokens_at(self, places: Span) -> Span:
        """The inverse of `places_of`."""
        shift = self._first_place - self.begin
        return places[0] - shift, places[1] - shift


def windows_of(
    question: Sequence[int],
    passage: TokenizedPassage,
    *,
    roles: Tokenizer,
    context: int,
    stride: int,
) -> list[PassageWindow]:
    """The rows of one question; a `stride` of 0 is half of what fits beside the question."""
    asked = question[: question_room(context)]
    room = context - SPECIALS - len(asked)
    step = min(stride or max(1, room // 2), room)
    last = max(0, len(passage.ids) - room)
    begins = [*range(0, last, step), last]
    return [_window(asked, passage, roles=roles, begin=begin, room=room) for begin in begins]


def question_room(context: int) -> int:
    """Tokens that a question may have."""
    room = context - SPECIALS
    if room < FEWEST_TOKENS:
        raise UserError(
            f"a row of {context} tokens has no room for question and passage beside its {SPECIALS} "
            "special tokens",
            topic="input",
            hint="Raise model.context.",
        )
    return room // 2


def _window(
    asked: Sequence[int], passage: TokenizedPassage, *, roles: Tokenizer, begin: int, room: int
) -> PassageWindow:
    ids = passage.ids[begin : begin + room]
    return PassageWindow(sequence_pair(asked, ids, roles=roles), begin, len(ids))
