"""Result of a lesson: a table, one chart, and checks that compare measured with expected values.

A check records the measured value, the expected value and the tolerance between them. For more
than a few values it records their largest difference. NaN fails every check.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from regard.reports.charts.theme import Chart, Theme

Relation = Literal["near", "below", "above", "equal"]
Number = float | int
Numbers = Number | Tensor | Sequence[Any]
"A number, a tensor, or nested lists of numbers."
Cell = float | int | str | bool

MAX_SHOWN = 6
"Values that a check lists; beyond this it reports their largest difference."
MAX_LABEL_LENGTH = 20
"Characters of a table cell; longer cells are text: wrapped and left-aligned."


class ChartFunction(Protocol):
    """Draws a lesson's chart in a theme, at a width in pixels, as report charts are drawn."""

    def __call__(self, *, theme: Theme, width: int) -> Chart: ...


@dataclass(frozen=True)
class LessonTable:
    """Named columns; rows of numbers and words."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {number}: {len(row)} cells, {len(self.columns)} columns")

    @property
    def is_text(self) -> list[bool]:
        """For each column, whether it holds text rather than numbers and short labels."""
        return [
            any(isinstance(cell, str) and len(cell) > MAX_LABEL_LENGTH for cell in column)
            for column in ([row[n] for row in self.rows] for n in range(len(self.columns)))
        ]


@dataclass(frozen=True)
class Check:
    """A claim as a comparison of values."""

    name: str
    measured: Any
    expected: Any
    tolerance: float
    passed: bool
    relation: Relation = "near"

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "relation": self.relation,
            "measured": _finite(self.measured),
            "expected": _finite(self.expected),
            "tolerance": self.tolerance,
            "passed": self.passed,
        }


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What a lesson's function returns; its question and claim are the function's docstring."""

    table: LessonTable
    chart: ChartFunction
    caption: str
    "One sentence: what the chart shows. Printed under the chart, and its text alternative."
    checks: Sequence[Check]
    see_also: Sequence[str]
    "Code below src/regard, and recipes."

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


def near(name: str, measured: Numbers, expected: Numbers, *, within: float) -> Check:
    """|measured − expected| ≤ within, element by element."""
    found, target = _tensor(measured), _tensor(expected)
    if found.shape != target.shape:
        raise ValueError(f"{name}: shapes {tuple(found.shape)} and {tuple(target.shape)}")
    difference = float((found - target).abs().max()) if found.numel() else 0.0
    passed = difference <= within  # False for NaN
    if found.numel() > MAX_SHOWN:
        return Check(f"{name}, largest difference", difference, 0.0, within, passed)
    return Check(name, found.tolist(), target.tolist(), within, passed)


def below(name: str, measured: Number | Tensor, limit: Number) -> Check:
    """measured ≤ limit."""
    found = float(measured)
    return Check(name, found, float(limit), 0.0, found <= limit, "below")


def above(name: str, measured: Number | Tensor, limit: Number) -> Check:
    """measured ≥ limit."""
    found = float(measured)
    return Check(name, found, float(limit), 0.0, found >= limit, "above")


def equal(name: str, measured: Any, expected: Any) -> Check:
    """Exactly equal: counts, shapes, words, lists of them, tensors bit for bit."""
    if isinstance(measured, Tensor) and isinstance(expected, Tensor):
        passed = measured.shape == expected.shape and bool(torch.equal(measured, expected))
        if measured.numel() > MAX_SHOWN:
            difference = "shapes differ"
            if measured.shape == expected.shape:
                difference = f"{int((measured != expected).sum())} differ"
            all_equal = f"all {measured.numel()} equal"
            return Check(name, all_equal if passed else difference, all_equal, 0.0, passed, "equal")
    found, target = _plain(measured), _plain(expected)
    return Check(name, found, target, 0.0, found == target, "equal")


def _tensor(numbers: Numbers) -> Tensor:
    if isinstance(numbers, Tensor):
        return numbers.detach().to(torch.float64)
    return torch.tensor(numbers, dtype=torch.float64)


def _plain(value: Any) -> Any:
    """As JSON types: lists, numbers, strings."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _finite(value: Any) -> Any:
    """NaN and infinities as strings: JSON has neither."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


LessonFunction = Callable[..., Lesson]
