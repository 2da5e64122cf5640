"""Events as TensorBoard scalars; TensorBoard comes as an extra."""

from __future__ import annotations

from pathlib import Path

from regard.core.errors import UserError
from regard.training.events import Event

TAG_PREFIXES = {"step": "train", "evaluation": "dev"}


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
        kind = event["event"]
        if kind not in TAG_PREFIXES:
            return
        scalars = ("loss", "lr", "gradient_norm") if kind == "step" else ("loss",)
        values = {name: event[name] for name in scalars} | event.get("scores", {})
        for name, value in values.items():
            self._writer.add_scalar(f"{TAG_PREFIXES[kind]}/{name}", value, event["step"])

    def close(self) -> None:
        self._writer.close()
