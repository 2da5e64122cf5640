"""Parameter counts by formula, computed from the settings before a model is built.

Each term reads `name: formula = value`. The sum of a model's terms equals the number of parameters
of the built model; the tests check this for every family.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ParameterCount:
    """The parameters of one component of a model."""

    name: str
    formula: str
    "In letters: w width, f MLP width, v vocabulary, T context, …"
    value: int

    def times(self, number: int, what: str) -> ParameterCount:
        """`number` copies of the component; `what` names them: `layers`."""
        formula = f"{number} {what} × ({self.formula})" if number != 1 else self.formula
        return ParameterCount(self.name, formula, self.value * number)

    def on(self, side: str) -> ParameterCount:
        """The same component with a prefix that locates it: `encoder`, `layer 3`."""
        return ParameterCount(f"{side}: {self.name}", self.formula, self.value)


def total_parameters(terms: Iterable[ParameterCount]) -> int:
    return sum(term.value for term in terms)


def linear_parameters(
    name: str, inputs: int, outputs: int, *, biases: bool, letters: str
) -> ParameterCount:
    """A linear layer; `letters` are its inputs and outputs, as in `w·w`."""
    out = letters.split("·")[-1]
    formula = f"{letters} + {out}" if biases else letters
    return ParameterCount(name, formula, inputs * outputs + (outputs if biases else 0))
