"""Healthy trainings of many shapes: no false alarm, no error."""

from __future__ import annotations

import random
from pathlib import Path

from tests.torture.commands import one_thread, tortured, without_charts, workspace_at
from tests.torture.harness import Failure, Target

ALARMS = ("diverged", "not finite", "damaged", "leak", "Traceback")


def trial(context: None, generator: random.Random, folder: Path) -> str:
    workspace = workspace_at(folder / "work")
    heads = generator.choice((1, 2, 4))
    workspace.recipe(
        model__family=generator.choice(("decoder", "encoder")),
        model__layers=generator.choice((1, 2)),
        model__heads=heads,
        model__width=heads * generator.choice((4, 8, 16)),
        model__context=generator.choice((8, 16, 33)),
        model__dropout=generator.choice((0.0, 0.1, 0.5)),
        model__activation=generator.choice(("gelu", "gelu-tanh", "relu", "swiglu")),
        model__norm=generator.choice(("layer", "rms")),
        model__tied=generator.choice((True, False)),
        train__lr=10 ** generator.uniform(-4, -2),
        train__batch_tokens=generator.choice((64, 256, 1000)),
        train__seed=generator.randrange(1000),
        train__batches=generator.choice(("packed", "bucketed", "padded")),
    )
    with without_charts():
        result = tortured(workspace, "train", "tiny.toml")
    said = result.stderr + result.stdout
    if result.exit_code or any(word in said for word in ALARMS):
        raise Failure("crashed", f"a healthy run: {said[-300:]}")
    return "no alarm"


def make(home: Path) -> None:
    one_thread()


TARGET = Target(
    "healthy runs",
    "healthy trainings of many shapes: no false alarm",
    200,
    trial,
    make,
    seconds=120,
)
