"""Full fine-tuning: every parameter that a loss depends on is trained."""

from __future__ import annotations

from typing import ClassVar

from regard.adapters import ADAPTERS, Adapter
from regard.core.ledger import ParameterCount
from regard.models.families import Family
from regard.models.model import TokenModel


@ADAPTERS.add("full", trains="every parameter that a loss depends on")
class Full(Adapter):
    """Train every parameter that a loss depends on."""

    saves_adapter_only: ClassVar[bool] = False

    def adapt(self, body: TokenModel, *, seed: int) -> None:
        body.requires_grad_(True)

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        return family.count_parameters(vocabulary)
