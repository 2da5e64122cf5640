"""Full fine-tuning: every parameter that a loss passes goes on learning from where it stands."""

from __future__ import annotations

from typing import ClassVar

from regard.adapters import ADAPTERS, Adapter
from regard.core.count import Term
from regard.models.families import Family
from regard.models.model import Model


@ADAPTERS.add("full", trains="every parameter that a loss passes")
class Full(Adapter):
    """Train everything that takes part."""

    saved_alone: ClassVar[bool] = False

    def change(self, body: Model, *, seed: int) -> None:
        body.requires_grad_(True)

    def terms(self, family: Family, *, vocabulary: int) -> list[Term]:
        return family.count(vocabulary)
