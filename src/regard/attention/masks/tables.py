"""What masks are made from: tables with a row for each row of the batch, and whole numbers.

A table of one row holds for every row of the batch. Shapes: b batch, i query, j key.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import UserError


class TableSize(NamedTuple):
    """The size of one table, so that a table for other rows is refused and not half read."""

    name: str
    rows: int
    positions: int | None = None
    "None: it has one number for each row."
    of_keys: bool = False
    "Speaks of keys alone; otherwise of queries and keys."

    def check(self, *, rows: int, positions: int) -> None:
        if self.rows not in (1, rows):
            raise _other_size(self.name, "rows", has=self.rows, needs=rows)
        if self.positions not in (None, positions):
            raise _other_size(self.name, "places", has=self.positions, needs=positions)


def check_flags(table: object, name: str) -> None:
    """(b, j), True or False."""
    _check_table(table, name, ndim=2, hint="Give True or False for each place: (rows, places).")
    if isinstance(table, Tensor) and table.dtype != torch.bool:
        raise UserError(
            f"{name}: a table of {_named(table)}, not of True and False",
            topic="mask",
            hint="Say which places hold a token: valid = ids != padding_id, or table.bool().",
        )


def check_numbers(table: object, name: str) -> None:
    """(b, i), whole numbers."""
    _check_table(table, name, ndim=2, hint="Give one number for each place: (rows, places).")
    _check_whole(table, name)


def check_lengths(lengths: object, name: str) -> None:
    """(b,), whole numbers."""
    hint = "Give one number for each row of the batch: torch.tensor([5, 3])."
    _check_table(lengths, name, ndim=1, hint=hint)
    _check_whole(lengths, name)


def check_number(number: object, name: str, *, least: int, owed: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise UserError(
            f"{name}({number!r}): {owed}",
            topic="mask",
            hint=f"Give a whole number, {least} or more.",
        )


def look_up(table: Tensor, b: Tensor, place: Tensor, name: str) -> Tensor:
    if place.numel() and int(place.max()) >= table.shape[1]:
        raise _other_size(name, "places", has=table.shape[1], needs=int(place.max()) + 1)
    return rows_of(table, b, name, place)


def rows_of(table: Tensor, b: Tensor, name: str, place: Tensor | None = None) -> Tensor:
    """The table's rows for b; a table of one row holds for every row of the batch."""
    if table.shape[0] == 1:
        b = torch.zeros_like(b[:1])
    elif b.numel() and int(b.max()) >= table.shape[0]:
        raise _other_size(name, "rows", has=table.shape[0], needs=int(b.max()) + 1)
    return table[b] if place is None else table[b, place]


def _check_table(table: object, name: str, *, ndim: int, hint: str) -> None:
    if not isinstance(table, Tensor):
        raise UserError(
            f"{name}: a {type(table).__name__} and not a tensor", topic="mask", hint=hint
        )
    if table.ndim != ndim:
        sort = "lengths" if ndim == 1 else "a table"
        raise UserError(f"{name}: {sort} of shape {tuple(table.shape)}", topic="mask", hint=hint)


def _check_whole(table: object, name: str) -> None:
    if isinstance(table, Tensor) and (table.is_floating_point() or table.is_complex()):
        raise UserError(
            f"{name}: numbers of type {_named(table)}, not whole ones",
            topic="mask",
            hint="Turn them into integers: table.long().",
        )


def _other_size(name: str, what: str, *, has: int | None, needs: int) -> UserError:
    whose = "the batch" if what == "rows" else "the row"
    return UserError(
        f"{name} knows {has} {what} and is asked about {needs}",
        topic="mask",
        hint=f"Give it as many {what} as {whose} has.",
    )


def _named(table: Tensor) -> str:
    return str(table.dtype).removeprefix("torch.")
