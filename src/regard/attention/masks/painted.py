"""Painted masks: cells that are allowed or forbidden by hand, whatever an expression says of them.

    4.7           query 4, key 7
    4-9.7-12      queries 4 to 9 and keys 7 to 12, both ends included
    4.7,5.8-10    both

A cell has the same coordinates in every row: those beyond the end of a shorter row are left out.
Shapes: i query, j key. Masks: True = may attend.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.masks.mask import Mask
from regard.core.errors import UserError

RECTANGLE = re.compile(
    r"(?P<top>\d{1,5})(?:-(?P<bottom>\d{1,5}))?\.(?P<left>\d{1,5})(?:-(?P<right>\d{1,5}))?",
    re.ASCII,
)
MAX_RECTANGLES = 2000


class Rectangle(NamedTuple):
    """Queries `top` to `bottom` and keys `left` to `right`, ends included."""

    top: int
    bottom: int
    left: int
    right: int


def parse_cells(text: str) -> tuple[Rectangle, ...]:
    """The cells that a text names."""
    parts = text.split(",") if text else []
    if len(parts) > MAX_RECTANGLES:
        raise UserError(
            f"{len(parts)} pieces are painted",
            topic="mask",
            hint=f"Paint {MAX_RECTANGLES} or fewer, or say it by an expression.",
        )
    return tuple(map(_parse_rectangle, parts))


def _parse_rectangle(part: str) -> Rectangle:
    found = RECTANGLE.fullmatch(part)
    if found is None:
        raise UserError(
            f"{part[:24]!r} names no cells",
            topic="mask",
            hint="Write a query, a point and a key, 4.7, or ranges of both, 4-9.7-12.",
        )
    top, left = int(found["top"]), int(found["left"])
    bottom = top if found["bottom"] is None else int(found["bottom"])
    right = left if found["right"] is None else int(found["right"])
    if bottom < top or right < left:
        raise UserError(
            f"{part!r} ends before it begins", topic="mask", hint="Write the smaller number first."
        )
    return Rectangle(top, bottom, left, right)


def paint(
    mask: Mask,
    length: int,
    *,
    allow: tuple[Rectangle, ...] = (),
    forbid: tuple[Rectangle, ...] = (),
) -> Mask:
    """`mask` for rows of `length` positions with painted cells; where a cell is in both, it is
    forbidden. The mask itself, with all that is known of it, where they change nothing."""
    table = mask.dense(length, length)[0, 0].clone()
    before = table.clone()
    for rectangles, value in ((allow, True), (forbid, False)):
        for one in rectangles:
            table[one.top : one.bottom + 1, one.left : one.right + 1] = value
    return mask if torch.equal(before, table) else mask_of_table(table, f"{mask.name}, painted")


def mask_of_table(table: Tensor, name: str) -> Mask:
    """The mask of a table (i,j), True = may attend, for rows of its size."""
    return Mask(lambda b, h, i, j: table[i, j], name)
