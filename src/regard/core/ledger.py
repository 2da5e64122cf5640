"""The ledger: every trained tensor of a model, and the closed formula of their count."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from regard.core.html_display import HtmlDisplay
from regard.core.parameter_count import ParameterCount


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

    @property
    def fraction(self) -> float:
        """Trained fraction of all parameters."""
        return self.total / self.of if self.of else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "fraction": self.fraction}
