"""A lesson's parameters: keyword arguments with ranges, which a page can turn into sliders.

    beta: Annotated[float, Range(1, 50)] = 20          kind: Literal["dot", "hard"] = "dot"

Names are Latin in Python; `--set β=20` means `beta`. What is unknown or out of range is told with
the range.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from regard.core.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Range:
    """The values a parameter may take, both ends included."""

    low: float
    high: float


Seed = Annotated[int, Range(0, 999_999)]
"What random numbers are drawn from."

GREEK = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "θ": "theta",
    "λ": "lambda_",
    "μ": "mu",
    "ρ": "rho",
    "σ": "sigma",
    "τ": "tau",
    "φ": "phi",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter, as a slider or a choice needs it."""

    name: str
    sort: Literal["int", "float", "choice"]
    default: float | int | str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """`a whole number from 3 to 64`."""
        if self.sort == "choice":
            return f"one of {', '.join(self.choices)}"
        sort = "a whole number" if self.sort == "int" else "a number"
        return f"{sort} from {self.low:g} to {self.high:g}"

    def read(self, given: Any, *, lesson: str) -> float | int | str:
        """The value, from Python or from the command line's text."""
        refused = UserError(
            f"{self.name} = {given} is not allowed: give {self.allowed}",
            topic="lesson",
            where=lesson,
        )
        if self.sort == "choice":
            if given not in self.choices:
                raise refused
            return str(given)
        try:
            value = math.nan if isinstance(given, bool) else float(given)
        except (TypeError, ValueError):
            raise refused from None
        assert self.low is not None
        assert self.high is not None
        if not self.low <= value <= self.high or (self.sort == "int" and value != int(value)):
            raise refused
        return int(value) if self.sort == "int" else value


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """What a lesson's function declares, in its order."""
    hints = get_type_hints(function, include_extras=True)
    return [
        _parameter(one, hints[one.name], function.__name__)
        for one in inspect.signature(function).parameters.values()
    ]


def _parameter(one: inspect.Parameter, hint: Any, function: str) -> Parameter:
    where = f"lesson {function}, parameter {one.name}"
    if one.kind is not inspect.Parameter.KEYWORD_ONLY or one.default is inspect.Parameter.empty:
        raise TypeError(f"{where}: a keyword argument with a default")
    if get_origin(hint) is Literal:
        return Parameter(one.name, "choice", one.default, choices=tuple(map(str, get_args(hint))))
    sort, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    ranges = [note for note in notes if isinstance(note, Range)]
    if sort not in (int, float) or not ranges:
        raise TypeError(f"{where}: Annotated[int or float, Range(low, high)], or a Literal")
    low, high = ranges[0].low, ranges[0].high
    if not low <= one.default <= high:
        raise TypeError(f"{where}: the default {one.default} is out of its own range")
    name: Literal["int", "float"] = "int" if sort is int else "float"
    return Parameter(one.name, name, sort(one.default), low, high)


def read_parameters(
    known: list[Parameter], given: Mapping[str, Any], *, lesson: str
) -> dict[str, float | int | str]:
    """Every parameter's value: what is given, read and checked, and else the default."""
    by_name = {one.name: one for one in known}
    values: dict[str, float | int | str] = {one.name: one.default for one in known}
    for name, value in given.items():
        latin = GREEK.get(name, name)
        if latin not in by_name:
            guess = did_you_mean(latin, by_name) or "; it takes none"
            raise UserError(f"unknown parameter {name}{guess}", topic="lesson", where=lesson)
        values[latin] = by_name[latin].read(value, lesson=lesson)
    return values
