"""Arguments of masks: tables with one row per row of the batch, and integers; all are checked.

A table of one row holds for every row of the batch. Shapes: b batch, i query, j key.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import UserError


class TableSize(NamedTuple):
    """The size of one table, so that a table for another batch is refused, not partly used."""

    name: str
    rows: int
    positions: int | None = None
    "None: the table has one integer per row."
    keys_only: bool = False
    "Positions are those of keys; otherwise of queries and keys."

    def check(self, *, rows: int, positions: int) -> None:
        if self.rows not in (1, rows):
            raise _size_error(self.name, "rows", has=self.rows, needs=rows)
        if self.positions not in (None, positions):
            raise _size_error(self.name, "positions", has=self.positions, needs=positions)


def check_bool_table(table: object, name: str) -> None:
    """(b, j), True or False."""
    hint = "Give True or False for each position: (rows, positions)."
    _check_tensor(table, name, ndim=2, hint=hint)
    if isinstance(table, Tensor) and table.dtype != torch.bool:
        raise UserError(
            f"{name}: a table of {_dtype_name(table)}, not of True and False",
            topic="mask",
            hint="Mark the positions that hold a token: valid = ids != padding_id, "
            "or table.bool().",
        )


def check_id_table(table: object, name: str) -> None:
    """(b, i), integers."""
    hint = "Give one number for each position: (rows, positions)."
    _check_tensor(table, name, ndim=2, hint=hint)
    _check_integers(table, name)


def check_lengths(lengths: object, name: str) -> None:
    """(b,), integers."""
    hint = "Give one number for each row of the batch: torch.tensor([5, 3])."
    _check_tensor(lengths, name, ndim=1, hint=hint)
    _check_integers(lengths, name)


def check_integer(number: object, name: str, *, minimum: int, requirement: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < minimum:
        raise UserError(
            f"{name}({number!r}): {requirement}",
            topic="mask",
            hint=f"Give a whole number, {minimum} or more.",
        )


def lookup(table: Tensor, b: Tensor, position: Tensor, name: str) -> Tensor:
    """table[b, position], checked."""
    if position.numel() and int(position.max()) >= table.shape[1]:
        raise _size_error(name, "positions", has=table.shape[1], needs=int(position.max()) + 1)
    return select_rows(table, b, name, position)


def select_rows(table: Tensor, b: Tensor, name: str, position: Tensor | None = None) -> Tensor:
    """The table's rows for b; a table of one row holds for every row of the batch."""
    if table.shape[0] == 1:
        b = torch.zeros_like(b[:1])
    elif b.numel() and int(b.max()) >= table.shape[0]:
        raise _size_error(name, "rows", has=table.shape[0], needs=int(b.max()) + 1)
    return table[b] if position is None else table[b, position]


def _check_tensor(table: object, name: str, *, ndim: int, hint: str) -> None:
    if not isinstance(table, Tensor):
        raise UserError(
            f"{name}: a {type(table).__name__} and not a tensor", topic="mask", hint=hint
        )
    if table.ndim != ndim:
        noun = "lengths" if ndim == 1 else "a table"
        raise UserError(f"{name}: {noun} of shape {tuple(table.shape)}", topic="mask", hint=hint)


def _check_integers(table: object, name: str) -> None:
    if isinstance(table, Tensor) and (table.is_floating_point() or table.is_complex()):
        raise UserError(
            f"{name}: numbers of type {_dtype_name(table)}, not integers",
            topic="mask",
            hint="Convert them: table.long().",
        )


def _size_error(name: str, axis: str, *, has: int | None, needs: int) -> UserError:
    whole = "the batch" if axis == "rows" else "the row"
    return UserError(
        f"{name} covers {has} {axis}, and {needs} are needed",
        topic="mask",
        hint=f"Give it as many {axis} as {whole} has.",
    )


def _dtype_name(table: Tensor) -> str:
    return str(table.dtype).removeprefix("torch.")
