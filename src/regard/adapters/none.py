"""Nothing is trained, not even a head: the model is measured as it is (zero-shot)."""

from __future__ import annotations

from regard.adapters import ADAPTERS, Adapter, refuse_adapted
from regard.core.count import Term
from regard.models.families import Family
from regard.models.model import Model


@ADAPTERS.add("none", trains="nothing")
class NoTraining(Adapter):
    """Measure the model as it is."""

    def apply(self, model: Model, *, seed: int) -> None:
        refuse_adapted(model)
        model.requires_grad_(False)
        model.base_apart = self.saved_alone

    def change(self, body: Model, *, seed: int) -> None:
        """There is nothing to do."""

    def terms(self, family: Family, *, vocabulary: int) -> list[Term]:
        return []
