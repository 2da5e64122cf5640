"""Forecast of a training's time and memory, from a few real steps on its first batches.

Measured on a throw-away copy of the model, not estimated by a formula: a few updates for training,
one forward pass without gradients for evaluation on dev and the final results. Baselines and
samples are not included. Memory is the process's peak after those steps.
"""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal

import torch
from torch import nn

from regard.batch import Batch
from regard.core.process.peak_memory import peak_memory_bytes
from regard.training.device import Machine
from regard.training.events import Event
from regard.training.loop import update
from regard.training.optimizer import build_optimizer
from regard.training.settings import Train

TRIAL_STEPS = 5


@dataclass(frozen=True)
class Forecast:
    """Expected cost of a training."""

    steps: int
    tokens: int
    seconds: float
    "Training time."
    evaluation_seconds: float
    "Time for evaluation on dev and for the final results."
    memory_bytes: int | None
    "Peak memory of this process; None where the system does not report it."
    parameters: int

    def as_dict(self) -> dict[str, float | None]:
        return asdict(self)


class ForecastEvent(Event):
    event: Literal["forecast"] = "forecast"
    forecast: Forecast


def forecast(
    model: nn.Module,
    batches: list[Batch],
    settings: Train,
    *,
    steps: int,
    evaluation_positions: int,
    machine: Machine,
) -> Forecast:
    """Time a few updates on a copy of the model; the first, a warmup, is not timed."""
    copy = deepcopy(model).train()
    optimizer = build_optimizer(copy, settings)
    update_seconds = []
    for step in range(1, TRIAL_STEPS + 1) if steps else ():
        began = time.perf_counter()
        batch = batches[step % len(batches)]
        # A learning rate of 0 costs the same and cannot diverge.
        update(copy, optimizer, batch, step=step, lr=0.0, settings=settings, machine=machine)
        if step > 1:
            update_seconds.append(time.perf_counter() - began)
    began = time.perf_counter()
    with torch.inference_mode():
        copy.eval()(batches[0].to(machine.device))
    sources = 0 if batches[0].source is None else batches[0].source.numel()
    seconds_per_position = (time.perf_counter() - began) / (batches[0].ids.numel() + sources)
    tokens = sum(batch.tokens for batch in batches) / len(batches)
    return Forecast(
        steps=steps,
        tokens=round(steps * tokens),
        seconds=steps * median(update_seconds or [0.0]),
        evaluation_seconds=evaluation_positions * seconds_per_position,
        memory_bytes=peak_memory_bytes(),
        parameters=sum(p.numel() for p in model.parameters()),
    )
