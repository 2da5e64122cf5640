"""Model inputs: token ids of one or two texts with special tokens added, truncated to a limit.

    single_sequence         [CLS] a [SEP]                   segments 0 … 0
    sequence_pair           [CLS] a [SEP] b [SEP]           segments 0 … 0 1 … 1
    delimited_sequence      <start> a <stop>                segments 0 … 0
    source_target_sequence  <start> a [SEP] b <stop>        segments 0 … 0 1 … 1, for a prefix mask

A `limit` counts every token of the row, special tokens included. Truncation removes tokens from the
end of the longer text first; `InputSequence.truncated` is their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from regard.core.errors import UserError


class Roles(Protocol):
    """A tokenizer, as far as its special tokens are needed here."""

    def require(self, role: str) -> int: ...


@dataclass(frozen=True)
class InputSequence:
    """One row: token ids, the segment of each, and how many tokens were truncated."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    truncated: int = 0


def single_sequence(a: Sequence[int], roles: Roles, *, limit: int | None = None) -> InputSequence:
    return _one_segment(a, roles.require("cls"), roles.require("sep"), limit=limit)


def delimited_sequence(
    a: Sequence[int], roles: Roles, *, limit: int | None = None
) -> InputSequence:
    return _one_segment(a, roles.require("start"), roles.require("stop"), limit=limit)


def sequence_pair(
    a: Sequence[int], b: Sequence[int], *, roles: Roles, limit: int | None = None
) -> InputSequence:
    cls, sep = roles.require("cls"), roles.require("sep")
    return _two_segments(a, b, specials=(cls, sep, sep), limit=limit)


def source_target_sequence(
    source: Sequence[int], target: Sequence[int], *, roles: Roles, limit: int | None = None
) -> InputSequence:
    specials = (roles.require("start"), roles.require("sep"), roles.require("stop"))
    return _two_segments(source, target, specials=specials, limit=limit)


def truncate_longest_first(
    a: Sequence[int], b: Sequence[int], *, max_length: int | None
) -> tuple[Sequence[int], Sequence[int]]:
    """Drop the last token of the longer text (of `b` if equal) until both fit into `max_length`.

    In closed form: `a` keeps what `b` leaves over, and at least half of it, rounded up.
    """
    if max_length is None or len(a) + len(b) <= max_length:
        return a, b
    kept = min(len(a), max(max_length - len(b), (max_length + 1) // 2))
    return a[:kept], b[: max_length - kept]


def _one_segment(a: Sequence[int], before: int, after: int, *, limit: int | None) -> InputSequence:
    kept = a[: _text_limit(limit, specials=2)]
    ids = (before, *kept, after)
    return InputSequence(ids, (0,) * len(ids), truncated=len(a) - len(kept))


def _two_segments(
    a: Sequence[int], b: Sequence[int], *, specials: tuple[int, int, int], limit: int | None
) -> InputSequence:
    before, between, after = specials
    kept_a, kept_b = truncate_longest_first(a, b, max_length=_text_limit(limit, specials=3))
    first, second = (before, *kept_a, between), (*kept_b, after)
    return InputSequence(
        first + second,
        (0,) * len(first) + (1,) * len(second),
        truncated=len(a) + len(b) - len(kept_a) - len(kept_b),
    )


def _text_limit(limit: int | None, *, specials: int) -> int | None:
    if limit is None:
        return None
    if limit <= specials:
        raise UserError(
            f"a row of {limit} tokens has no room for text beside its {specials} special tokens",
            topic="input",
            hint="Raise model.context.",
        )
    return limit - specials
