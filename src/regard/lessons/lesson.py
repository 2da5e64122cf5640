"""What a lesson gives: a table, one chart, and checks that hold its claim against numbers.

A check keeps what was measured, what was expected and how far apart they may be. More than a few
numbers are told by the largest distance between them. NaN passes no check.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
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

MOST_SHOWN = 6
"Numbers that a check writes out; more than these are told by their largest distance."
LONG = 20
"Letters of a cell from which on it is a phrase, to be broken into lines and set at the left."


class Draw(Protocol):
    """What draws a lesson's chart, as the charts of a report are drawn."""

    def __call__(self, *, theme: Theme, width: int) -> Chart: ...


@dataclass(frozen=True)
class LessonTable:
    """Named columns and rows of numbers or words."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {number}: {len(row)} cells, {len(self.columns)} columns")

    @property
    def told(self) -> list[bool]:
        """Of each column, whether it holds words to read rather than figures to compare."""
        return [
            any(
                isinstance(cell, str) and len(cell) > LONG for cell in (row[n] for row in self.rows)
            )
            for n in range(len(self.columns))
        ]


@dataclass(frozen=True)
class Check:
    """One claim as numbers."""

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
    """What running a lesson gives; its question and claim are the function's docstring."""

    table: LessonTable
    chart: Draw
    caption: str
    "What the chart shows, in a sentence: under the chart, and for those who cannot see it."
    checks: Sequence[Check]
    see: Sequence[str]
    "Where to go on: code below src/regard, and recipes."

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


def near(name: str, measured: Numbers, expected: Numbers, *, within: float) -> Check:
    """Every number is at most `within` from what is expected."""
    found, wanted = _tensor(measured), _tensor(expected)
    if found.shape != wanted.shape:
        raise ValueError(f"{name}: shapes {tuple(found.shape)} and {tuple(wanted.shape)}")
    distance = float((found - wanted).abs().max()) if found.numel() else 0.0
    passed = distance <= within  # False where the distance is NaN
    if found.numel() > MOST_SHOWN:
        return Check(f"{name}, largest difference", distance, 0.0, within, passed)
    return Check(name, found.tolist(), wanted.tolist(), within, passed)


def below(name: str, measured: Number | Tensor, limit: Number) -> Check:
    """Less than `limit`, or as much."""
    found = float(measured)
    return Check(name, found, float(limit), 0.0, found <= limit, "below")


def above(name: str, measured: Number | Tensor, limit: Number) -> Check:
    """More than `limit`, or as much."""
    found = float(measured)
    return Check(name, found, float(limit), 0.0, found >= limit, "above")


def equal(name: str, measured: Any, expected: Any) -> Check:
    """The very same: counts, shapes, words, lists of them, bits of tensors."""
    if isinstance(measured, Tensor) and isinstance(expected, Tensor):
        passed = measured.shape == expected.shape and bool(torch.equal(measured, expected))
        if measured.numel() > MOST_SHOWN:
            different = "other shapes"
            if measured.shape == expected.shape:
                different = f"{int((measured != expected).sum())} differ"
            said = f"all {measured.numel()} alike"
            return Check(name, said if passed else different, said, 0.0, passed, "equal")
    found, wanted = _plain(measured), _plain(expected)
    return Check(name, found, wanted, 0.0, found == wanted, "equal")


def _tensor(numbers: Numbers) -> Tensor:
    if isinstance(numbers, Tensor):
        return numbers.detach().to(torch.float64)
    return torch.tensor(numbers, dtype=torch.float64)


def _plain(value: Any) -> Any:
    """As JSON holds it: lists, numbers, words."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: these become words."""
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def failed(checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if not check.passed]


LessonFunction = Callable[..., Lesson]
