"""What an audit finds: leaks, violated invariances, unused parameters.

Free of torch, so that reports read them from audit.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

INVALID_VERDICTS = ("leak", "batch coupling")
"Scores of such a model mean nothing."


KEY_BIASES = ("key.bias", "keys.bias", "k_proj.bias", "k.bias")


@dataclass(frozen=True)
class Leak:
    """An output at `query` that depends on the input at `key`, which the mask forbids."""

    query: int
    key: int
    influence: float
    "Relative to the RMS of the outputs or, for a gradient, to the query's largest allowed one."
    how: str
    """perturbation, truncation (the key is the first removed position) or gradient; `, in float32
    only` where float64 does not show it"""
    where: str
    "Forward mode and length of the row."
    opens_with: tuple[str, ...] = ()
    "What has to change first: parameters that train, or tensors that are zero; empty if nothing."
    opens_by: Literal["", "training", "no longer zero"] = ""


@dataclass(frozen=True)
class Finding:
    """Outputs that changed with something they should be invariant to."""

    check: str
    text: str
    size: float
    "Largest change, relative to the RMS of the outputs."


@dataclass(frozen=True)
class UnusedParameter:
    """A trained parameter that receives no data-dependent gradient."""

    name: str
    shape: tuple[int, ...]
    why: str

    @property
    def is_by_design(self) -> bool:
        """A key bias, whose gradient is rounding noise: softmax is invariant to a constant added
        to all scores of a query, and no one can change that."""
        return self.name.endswith(KEY_BIASES) and "noise" in self.why
