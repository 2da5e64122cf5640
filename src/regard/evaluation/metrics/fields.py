"""Typed access to the fields of rows, with an error that names the item."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import Row
from regard.evaluation.statistics.seed_tables import Values


def texts(rows: Sequence[Row], field: str) -> list[str]:
    """The field of each row, a text."""
    values = _present(rows, field)
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise field_error(rows, number, f"{field} is {value!r}, not a text")
    return values


def lists_of_texts(rows: Sequence[Row], field: str) -> list[list[str]]:
    """The field of each row, a list of texts; it may be empty."""
    values = _present(rows, field)
    for number, value in enumerate(values):
        # A str is a sequence of str too, and would be split into letters.
        is_list = isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value)
        if not is_list:
            raise field_error(rows, number, f"{field} is {value!r}, not a list of texts")
    return [list(value) for value in values]


def numbers(rows: Sequence[Row], field: str) -> Values:
    """The field of each row, a finite number."""
    values = _present(rows, field)
    for number, value in enumerate(values):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise field_error(rows, number, f"{field} is {value!r}, not a finite number")
    return np.array(values, dtype=np.float64)


def field_error(rows: Sequence[Row], number: int, what: str, *, hint: str = "") -> UserError:
    """An error naming the row by its item number, or by its position where it has none."""
    item = rows[number].get("item", f"at position {number + 1:,}")
    return UserError(f"item {item}: {what}", topic="evaluation", hint=hint)


def _present(rows: Sequence[Row], field: str) -> list[Any]:
    for number, row in enumerate(rows):
        if field not in row:
            raise field_error(rows, number, f"there is no {field}; it has {', '.join(row)}")
    return [row[field] for row in rows]
