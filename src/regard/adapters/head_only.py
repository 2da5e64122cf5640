"""Head only: the body stays as it is, and a task's head learns to read it."""

from __future__ import annotations

from regard.adapters import ADAPTERS, Adapter
from regard.core.count import Term
from regard.core.errors import UserError
from regard.models.families import Family
from regard.models.model import Model
from regard.models.task_models.task_model import TaskModel


@ADAPTERS.add("head", trains="the head of the task")
class HeadOnly(Adapter):
    """Train the head of the task and nothing below it: w·c + c parameters for c labels."""

    def apply(self, model: Model, *, seed: int) -> None:
        head = model.head if isinstance(model, TaskModel) else None
        if head is None or not any(True for _ in head.parameters()):
            lacks = "this model has no head of a task" if head is None else "its head has none"
            raise UserError(
                f"adapt.kind = 'head' trains the parameters of a task's head, and {lacks}",
                topic="adapt",
                hint='Choose a task with a head, such as classification, or adapt by "lora".',
            )
        super().apply(model, seed=seed)

    def change(self, body: Model, *, seed: int) -> None:
        """The body stays as it is."""

    def terms(self, family: Family, *, vocabulary: int) -> list[Term]:
        return []
