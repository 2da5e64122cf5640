"""No training, not even of a head: the model is evaluated as it is (zero-shot)."""

from __future__ import annotations

from regard.adapters import ADAPTERS, Adapter, refuse_adapted
from regard.core.ledger import ParameterCount
from regard.models.families import Family
from regard.models.model import Model, TokenModel


@ADAPTERS.add("none", trains="nothing")
class NoTraining(Adapter):
    """Evaluate the model as it is."""

    def apply(self, model: Model, *, seed: int) -> None:
        refuse_adapted(model)
        model.requires_grad_(False)
        model.saves_adapter_only = self.saves_adapter_only

    def adapt(self, body: TokenModel, *, seed: int) -> None:
        """Nothing to do."""

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        return []
