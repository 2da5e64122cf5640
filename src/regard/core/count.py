"""How many parameters a model has, as a formula that is worked out before anything is built.

Terms are read as `name: formula = value`; their sum equals the count of the built model's tensors,
which the tests check for every family.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A part of the model and the parameters it has."""

    name: str
    formula: str
    "In the letters of the settings: w width, f feed-forward, v vocabulary, T context, …"
    value: int

    def times(self, number: int, what: str) -> Term:
        """The same part, `number` times over."""
        formula = f"{number} {what} × ({self.formula})" if number != 1 else self.formula
        return Term(self.name, formula, self.value * number)

    def on(self, side: str) -> Term:
        """The same part, on one side of a model that has two."""
        return Term(f"{side}: {self.name}", self.formula, self.value)


def total(terms: Iterable[Term]) -> int:
    return sum(term.value for term in terms)


def linear(name: str, inputs: int, outputs: int, *, biases: bool, letters: str) -> Term:
    """A linear layer; `letters` says inputs and outputs, as in `w·w`."""
    out = letters.split("·")[-1]
    formula = f"{letters} + {out}" if biases else letters
    return Term(name, formula, inputs * outputs + (outputs if biases else 0))
