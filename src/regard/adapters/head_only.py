"""Head only (linear probing): the body is frozen, the head of the task is trained."""

from __future__ import annotations

from regard.adapters import ADAPTERS, Adapter
from regard.core.errors import UserError
from regard.core.ledger import ParameterCount
from regard.models.families import Family
from regard.models.model import Model, TokenModel


@ADAPTERS.add("head", trains="the head of the task")
class HeadOnly(Adapter):
    """Train the head of the task and nothing below it: w·c + c parameters for c labels."""

    def apply(self, model: Model, *, seed: int) -> None:
        head = model.task_head
        if head is None or not any(True for _ in head.parameters()):
            problem = "this model has no task head" if head is None else "its head has none"
            raise UserError(
                f"adapt.kind = 'head' trains the parameters of a task head, and {problem}",
                topic="adapt",
                hint='Choose a task with a head, such as classification, or adapt by "lora".',
            )
        super().apply(model, seed=seed)

    def adapt(self, body: TokenModel, *, seed: int) -> None:
        """Nothing to do: the body stays frozen."""

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        return []
