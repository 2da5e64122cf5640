"""Long passages in overlapping windows, and spans of characters as spans of tokens.

    [CLS] question [SEP] tokens 0 … r−1 [SEP]
    [CLS] question [SEP] tokens s … s+r−1 [SEP]        r = context − 3 − question,  s ≤ r the stride

The last window is shifted back until it is full. Every span of at most r − s + 1 tokens lies wholly
in some window. A question has at most half of the non-special tokens and is truncated beyond that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.core.errors import UserError
from regard.data.special_tokens import InputSequence, sequence_pair
from regard.data.tokenizers.tokenizer import Tokenizer

SPECIAL_TOKENS = 3
"[CLS] and two [SEP]."
MIN_TOKENS = 2
"Minimum tokens of question and passage together."

Span = tuple[int, int]
"First and last token or position, both included; or begin and end of characters, end excluded."


@dataclass(frozen=True)
class TokenizedPassage:
    """A text as tokens with their character offsets."""

    text: str
    ids: tuple[int, ...]
    offsets: tuple[Span, ...]
    "Characters of each token, the end excluded; neighbours may overlap."

    @classmethod
    def from_text(cls, text: str, tokenizer: Tokenizer) -> TokenizedPassage:
        ids, offsets = tokenizer.encode_with_offsets(text)
        return cls(text, tuple(ids), tuple(offsets))

    def token_span(self, begin: int, end: int) -> Span | None:
        """The smallest span of tokens that covers these characters; None where no token overlaps
        them."""
        overlapping = [
            index
            for index, (token_begin, token_end) in enumerate(self.offsets)
            if token_begin < end and token_end > begin
        ]
        return (overlapping[0], overlapping[-1]) if overlapping else None

    def character_span(self, first: int, last: int) -> Span:
        """The characters of the tokens `first` to `last`, without surrounding white space; the
        end is excluded."""
        begin, end = self.offsets[first][0], self.offsets[last][1]
        covered = self.text[begin:end]
        begin += len(covered) - len(covered.lstrip())
        return begin, begin + len(covered.strip())


@dataclass(frozen=True)
class PassageWindow:
    """An input sequence with a question and a window of its passage."""

    sequence: InputSequence
    begin: int
    "Index in the passage of the window's first token."
    tokens: int
    "Number of passage tokens in the window."

    @property
    def _offset(self) -> int:
        """Position in the sequence minus index in the passage."""
        return len(self.sequence.ids) - self.tokens - 1 - self.begin

    def to_positions(self, span: Span) -> Span | None:
        """Positions of passage tokens in the sequence; None where the window lacks any of them."""
        first, last = span
        if first < self.begin or last >= self.begin + self.tokens:
            return None
        return first + self._offset, last + self._offset

    def to_tokens(self, positions: Span) -> Span:
        """The inverse of `to_positions`."""
        first, last = positions
        return first - self._offset, last - self._offset


def build_windows(
    question: Sequence[int],
    passage: TokenizedPassage,
    *,
    roles: Tokenizer,
    context: int,
    stride: int,
) -> list[PassageWindow]:
    """The windows of one question; a `stride` of 0 is half of a window's passage tokens."""
    question = question[: max_question_tokens(context)]
    max_tokens = context - SPECIAL_TOKENS - len(question)
    step = min(stride or max(1, max_tokens // 2), max_tokens)
    last = max(0, len(passage.ids) - max_tokens)
    windows = []
    for begin in [*range(0, last, step), last]:
        ids = passage.ids[begin : begin + max_tokens]
        windows.append(PassageWindow(sequence_pair(question, ids, roles=roles), begin, len(ids)))
    return windows


def max_question_tokens(context: int) -> int:
    """Maximum tokens of a question: half of what the special tokens leave."""
    tokens = context - SPECIAL_TOKENS
    if tokens < MIN_TOKENS:
        raise UserError(
            f"a row of {context} tokens is too short for question and passage beside its "
            f"{SPECIAL_TOKENS} special tokens",
            topic="input",
            hint="Raise model.context.",
        )
    return tokens // 2
