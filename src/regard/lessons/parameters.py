"""Lesson parameters: keyword arguments with ranges, which a page can turn into sliders.

    beta: Annotated[float, Range(1, 50)] = 20          kind: Literal["dot", "hard"] = "dot"

Python names are Latin; `--set β=20` sets `beta`. An unknown name or a value out of range is an
error that names the allowed values.
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
    """Allowed values of a parameter, both ends included."""

    low: float
    high: float


Seed = Annotated[int, Range(0, 999_999)]
"Seed of a lesson's random draws."

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
    """One parameter: its type, default, and range or choices."""

    name: str
    type: Literal["int", "float", "choice"]
    default: float | int | str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """`a whole number from 3 to 64`."""
        if self.type == "choice":
            return f"one of {', '.join(self.choices)}"
        noun = "a whole number" if self.type == "int" else "a number"
        return f"{noun} from {self.low:g} to {self.high:g}"

    def parse(self, argument: Any, *, lesson: str) -> float | int | str:
        """The value of an argument given in Python or as text on the command line."""
        refused = UserError(
            f"{self.name} = {argument} is not allowed: give {self.allowed}",
            topic="lesson",
            where=lesson,
        )
        if self.type == "choice":
            if argument not in self.choices:
                raise refused
            return str(argument)
        try:
            value = math.nan if isinstance(argument, bool) else float(argument)
        except (TypeError, ValueError):
            raise refused from None
        assert self.low is not None
        assert self.high is not None
        if not self.low <= value <= self.high or (self.type == "int" and value != int(value)):
            raise refused
        return int(value) if self.type == "int" else value


def declared_parameters(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a lesson's function, in order of declaration."""
    hints = get_type_hints(function, include_extras=True)
    return [
        _parameter(argument, hints[argument.name], function.__name__)
        for argument in inspect.signature(function).parameters.values()
    ]


def _parameter(argument: inspect.Parameter, hint: Any, function: str) -> Parameter:
    where = f"lesson {function}, parameter {argument.name}"
    keyword_only = argument.kind is inspect.Parameter.KEYWORD_ONLY
    if not keyword_only or argument.default is inspect.Parameter.empty:
        raise TypeError(f"{where}: needs a keyword-only argument with a default")
    if get_origin(hint) is Literal:
        choices = tuple(map(str, get_args(hint)))
        return Parameter(argument.name, "choice", argument.default, choices=choices)
    number, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    ranges = [note for note in notes if isinstance(note, Range)]
    if number not in (int, float) or not ranges:
        raise TypeError(f"{where}: needs Annotated[int or float, Range(low, high)], or a Literal")
    low, high = ranges[0].low, ranges[0].high
    if not low <= argument.default <= high:
        raise TypeError(f"{where}: the default {argument.default} is outside its range")
    type_name: Literal["int", "float"] = "int" if number is int else "float"
    return Parameter(argument.name, type_name, number(argument.default), low, high)


def parse_parameters(
    declared: list[Parameter], arguments: Mapping[str, Any], *, lesson: str
) -> dict[str, float | int | str]:
    """A checked value for every declared parameter; defaults where no argument is given."""
    by_name = {parameter.name: parameter for parameter in declared}
    values: dict[str, float | int | str] = {
        parameter.name: parameter.default for parameter in declared
    }
    for name, value in arguments.items():
        latin = GREEK.get(name, name)
        if latin not in by_name:
            guess = did_you_mean(latin, by_name) or "; it takes none"
            raise UserError(f"unknown parameter {name}{guess}", topic="lesson", where=lesson)
        values[latin] = by_name[latin].parse(value, lesson=lesson)
    return values
