"""Parameter counts: by formula, from the settings before a model is built, and by tensor.

Each term of a formula reads `name: formula = value`. The ledger lists every trained tensor of a
model beside the terms, which must sum to the same number; the tests check this for every family.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from regard.core.html_display import HtmlDisplay


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


@dataclass(frozen=True)
class TrainedTensor:
    """One trained tensor."""

    name: str
    shape: tuple[int, ...]
    count: int


@dataclass(frozen=True)
class Ledger(HtmlDisplay):
    """The trained parameters of a model."""

    adapter: str
    "Its name."
    rows: tuple[TrainedTensor, ...]
    total: int
    "Trained parameters."
    of: int
    "All parameters of the model, those added by the adapter included."
    terms: tuple[ParameterCount, ...]
    "Formulas whose sum is the total."
    is_projected: bool = False
    "Whether nothing has been trained here yet: the ledger says what would be."

    def __repr__(self) -> str:
        """`<Ledger lora: 1,024 of 12,345 parameters (8.295%)>`"""
        return (
            f"<Ledger {self.adapter}: {self.total:,} of {self.of:,} parameters "
            f"({self.fraction:.3%})>"
        )

    @property
    def fraction(self) -> float:
        """Trained fraction of all parameters."""
        return self.total / self.of if self.of else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "fraction": self.fraction}
