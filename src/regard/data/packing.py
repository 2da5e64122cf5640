"""Packing: texts that are already ids become the one row a model reads, specials in place.

    one               [CLS] a [SEP]                    segments 0 … 0
    pair              [CLS] a [SEP] b [SEP]            segments 0 … 0 1 … 1
    bounded           <start> a <stop>                 segments 0 … 0
    source_and_target <start> a <stop>, <start> b <stop>      two rows, for an encoder-decoder
    source_to_target  <start> a [SEP] b <stop>         segments 0 … 0 1 … 1, for a prefix mask

A `limit` counts every token of the row, specials too. Where text is too long, the longer side loses
from its end, one token after another; `Packed.lost` says how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from regard.core.errors import UserError


class Roles(Protocol):
    """What packing needs of a tokenizer."""

    def require(self, role: str) -> int: ...


@dataclass(frozen=True)
class Packed:
    """One row: its ids, the segment of each, and how many tokens the limit cost."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    lost: int = 0


def one(a: Sequence[int], roles: Roles, *, limit: int | None = None) -> Packed:
    kept = shorten(a, room=_room(limit, specials=2))
    ids = (roles.require("cls"), *kept, roles.require("sep"))
    return Packed(ids, (0,) * len(ids), lost=len(a) - len(kept))


def pair(a: Sequence[int], b: Sequence[int], *, roles: Roles, limit: int | None = None) -> Packed:
    cls, sep = roles.require("cls"), roles.require("sep")
    return _two_segments(a, b, marks=((cls,), (sep,), (sep,)), limit=limit)


def bounded(a: Sequence[int], roles: Roles, *, limit: int | None = None) -> Packed:
    kept = shorten(a, room=_room(limit, specials=2))
    ids = (roles.require("start"), *kept, roles.require("stop"))
    return Packed(ids, (0,) * len(ids), lost=len(a) - len(kept))


def source_and_target(
    source: Sequence[int],
    target: Sequence[int],
    *,
    roles: Roles,
    source_limit: int | None = None,
    target_limit: int | None = None,
) -> tuple[Packed, Packed]:
    """Each side has its own limit, since each has its own stack of layers."""
    return bounded(source, roles, limit=source_limit), bounded(target, roles, limit=target_limit)


def source_to_target(
    source: Sequence[int], target: Sequence[int], *, roles: Roles, limit: int | None = None
) -> Packed:
    marks = ((roles.require("start"),), (roles.require("sep"),), (roles.require("stop"),))
    return _two_segments(source, target, marks=marks, limit=limit)


def shorten(ids: Sequence[int], *, room: int | None) -> Sequence[int]:
    return ids if room is None else ids[:room]


def shorten_longer(
    a: Sequence[int], b: Sequence[int], *, room: int | None
) -> tuple[Sequence[int], Sequence[int]]:
    """Take the last token of the longer side (of `b` when equal) until both fit into `room`.

    Done at once: `a` keeps what `b` leaves over, and never less than half, rounded up.
    """
    if room is None or len(a) + len(b) <= room:
        return a, b
    kept = min(len(a), max(room - len(b), (room + 1) // 2))
    return a[:kept], b[: room - kept]


def _two_segments(
    a: Sequence[int],
    b: Sequence[int],
    *,
    marks: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    limit: int | None,
) -> Packed:
    before, between, after = marks
    kept_a, kept_b = shorten_longer(a, b, room=_room(limit, specials=3))
    first, second = (*before, *kept_a, *between), (*kept_b, *after)
    return Packed(
        first + second,
        (0,) * len(first) + (1,) * len(second),
        lost=len(a) + len(b) - len(kept_a) - len(kept_b),
    )


def _room(limit: int | None, *, specials: int) -> int | None:
    if limit is None:
        return None
    if limit <= specials:
        raise UserError(
            f"a row of {limit} tokens has no room for text beside its {specials} special tokens",
            topic="packing",
            hint="Raise model.context.",
        )
    return limit - specials
