"""Fields of rows: what a measure reads of each item, refused in words where it cannot be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import Row
from regard.evaluation.statistics.seed_tables import Values


def texts(rows: Sequence[Row], field: str) -> list[str]:
    """One text of each row."""
    values = _present(rows, field)
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise field_error(rows, number, f"{field} is {value!r}, not a text")
    return values


def lists_of_texts(rows: Sequence[Row], field: str) -> list[list[str]]:
    """One list of texts of each row, as it is; it may be empty."""
    values = _present(rows, field)
    for number, value in enumerate(values):
        # A text is a sequence of texts too, and would be taken apart into letters.
        whole = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        if not whole:
            raise field_error(rows, number, f"{field} is {value!r}, not a list of texts")
    return [list(value) for value in values]


def numbers(rows: Sequence[Row], field: str) -> Values:
    """One finite number of each row."""
    values = _present(rows, field)
    for number, value in enumerate(values):
        plain = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not plain or not math.isfinite(value):
            raise field_error(rows, number, f"{field} is {value!r}, not a finite number")
    return np.array(values, dtype=np.float64)


def field_error(rows: Sequence[Row], number: int, what: str, *, hint: str = "") -> UserError:
    """The error that names the row by its item, or by its place where it has no number."""
    item = rows[number].get("item", f"at place {number + 1:,}")
    return UserError(f"item {item}: {what}", topic="evaluation", hint=hint)


def _present(rows: Sequence[Row], field: str) -> list[Any]:
    for number, row in enumerate(rows):
        if field not in row:
            raise field_error(rows, number, f"there is no {field}; it has {', '.join(row)}")
    return [row[field] for row in rows]
