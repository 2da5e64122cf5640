"""Events as TensorBoard scalars; TensorBoard comes as an extra."""

from __future__ import annotations

from pathlib import Path

from regard.core.errors import UserError
from regard.training.events import EvaluationEvent, Event, StepEvent


class TensorBoardLog:
    def __init__(self, folder: Path, *, after_step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "train.tensorboard = true needs TensorBoard, which is not installed",
                topic="recipe",
                hint="pip install 'regard[tensorboard]', or set it to false.",
            ) from None
        # purge_step drops the steps that a resumed run repeats.
        self._writer = SummaryWriter(str(folder), purge_step=after_step + 1 if after_step else None)

    def __call__(self, event: Event) -> None:
        match event:
            case StepEvent():
                names = ("loss", "lr", "gradient_norm")
                values = {f"train/{name}": getattr(event, name) for name in names}
            case EvaluationEvent():
                scores = {"loss": event.loss, **event.scores}
                values = {f"dev/{name}": value for name, value in scores.items()}
            case _:
                return
        for name, value in values.items():
            self._writer.add_scalar(name, value, event.step)

    def close(self) -> None:
        self._writer.close()
