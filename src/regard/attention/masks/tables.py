"""Arguments of masks: tables with one row per row of the batch, and integers; all are checked.

A table of one row holds for every row of the batch. Shapes: b batch, i query, j key.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.process.host import is_readable


@dataclass(frozen=True, eq=False)
class Table:
    """A table, whose size is checked: one for another batch is refused, not partly used."""

    name: str
    values: Tensor
    "(b, j) or (b, i); (b,) where there is one integer per row"
    keys_only: bool = False
    "Positions are those of keys; otherwise of queries and keys."
    virtual_tokens: int = 0
    "Virtual tokens before its first position, in rows that begin with some."

    @classmethod
    def of_bools(cls, values: object, name: str) -> Table:
        """(b, j), True or False for each key."""
        hint = "Give True or False for each position: (rows, positions)."
        tensor = _check_tensor(values, name, ndim=2, hint=hint)
        if tensor.dtype != torch.bool:
            raise UserError(
                f"{name}: a table of {_dtype_name(tensor)}, not of True and False",
                topic="mask",
                hint="Mark the positions that hold a token: valid = ids != padding_id, "
                "or table.bool().",
            )
        return cls(name, tensor, keys_only=True)

    @classmethod
    def of_integers(cls, values: object, name: str, *, per_row: bool = False) -> Table:
        """(b, i), one for each position; or (b,), one for each row."""
        hint = (
            "Give one number for each row of the batch: torch.tensor([5, 3])."
            if per_row
            else "Give one number for each position: (rows, positions)."
        )
        tensor = _check_tensor(values, name, ndim=1 if per_row else 2, hint=hint)
        if tensor.is_floating_point() or tensor.is_complex():
            raise UserError(
                f"{name}: numbers of type {_dtype_name(tensor)}, not integers",
                topic="mask",
                hint="Convert them: table.long().",
            )
        return cls(name, tensor)

    @property
    def positions(self) -> int | None:
        """It covers, virtual tokens included; None where it has one value per row."""
        size = self.values.shape
        return size[1] + self.virtual_tokens if len(size) == 2 else None

    def at(self, b: Tensor, position: Tensor | None = None) -> Tensor:
        """The values of rows b, at `position` where there is one for each."""
        size = self.values.shape
        # Elsewhere `check_fits` has compared the shapes.
        checked = is_readable(b)
        if checked and position is not None and position.numel() and int(position.max()) >= size[1]:
            raise self._size_error("positions", has=size[1], needs=int(position.max()) + 1)
        if size[0] == 1:
            b = torch.zeros_like(b[:1] if b.ndim else b)
        elif checked and b.numel() and int(b.max()) >= size[0]:
            raise self._size_error("rows", has=size[0], needs=int(b.max()) + 1)
        return self.values[b] if position is None else self.values[b, position]

    def check_fits(self, *, rows: int, positions: int) -> None:
        covered = len(self.values)
        if covered not in (1, rows):
            raise self._size_error("rows", has=covered, needs=rows)
        if self.positions is not None and self.positions != positions:
            raise self._size_error("positions", has=self.positions, needs=positions)

    def _size_error(self, axis: str, *, has: int, needs: int) -> UserError:
        whole = "the batch" if axis == "rows" else "the row"
        return UserError(
            f"{self.name} covers {has} {axis}, and {needs} are needed",
            topic="mask",
            hint=f"Give it as many {axis} as {whole} has.",
        )


def check_integer(number: object, name: str, *, minimum: int, requirement: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < minimum:
        raise UserError(
            f"{name}({number!r}): {requirement}",
            topic="mask",
            hint=f"Give a whole number, {minimum} or more.",
        )


def _check_tensor(table: object, name: str, *, ndim: int, hint: str) -> Tensor:
    if not isinstance(table, Tensor):
        raise UserError(
            f"{name}: a {type(table).__name__} and not a tensor", topic="mask", hint=hint
        )
    if table.ndim != ndim:
        noun = "lengths" if ndim == 1 else "a table"
        raise UserError(f"{name}: {noun} of shape {tuple(table.shape)}", topic="mask", hint=hint)
    return table


def _dtype_name(table: Tensor) -> str:
    return str(table.dtype).removeprefix("torch.")
