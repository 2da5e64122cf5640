"""What a training will cost, from a few real steps on its first batches.

A formula would guess; a throw-away copy measures: a few updates for the training, one pass without
gradients for all the looking at dev and the final figures. Baselines and samples are not counted.
Memory is the process's peak after those steps.
"""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import asdict, dataclass
from statistics import median

import torch
from torch import nn

from regard.batch import Batch
from regard.core.peak_memory import peak_memory_bytes
from regard.training.device import Machine
from regard.training.loop import update
from regard.training.optimizer import build_optimizer
from regard.training.settings import Train

TRIAL_STEPS = 5


@dataclass(frozen=True)
class Forecast:
    steps: int
    tokens: int
    seconds: float
    "Of training."
    measuring_seconds: float
    "Of looks at dev and of the final figures."
    memory_bytes: int | None
    "Peak of this process; None where the system does not say."
    parameters: int

    def as_dict(self) -> dict[str, float | None]:
        return asdict(self)


def forecast(
    model: nn.Module,
    batches: list[Batch],
    settings: Train,
    *,
    steps: int,
    places_measured: int,
    machine: Machine,
) -> Forecast:
    """Try a few updates on a copy; the first, which also warms caches, is not timed."""
    copy = deepcopy(model).train()
    optimizer = build_optimizer(copy, settings)
    timed = []
    for step in range(1, TRIAL_STEPS + 1) if steps else ():
        began = time.perf_counter()
        batch = batches[step % len(batches)]
        # A learning rate of 0 times the step is as dear as any other, and cannot diverge.
        update(copy, optimizer, batch, step=step, lr=0.0, settings=settings, machine=machine)
        if step > 1:
            timed.append(time.perf_counter() - began)
    began = time.perf_counter()
    with torch.inference_mode():
        copy.eval()(batches[0].to(machine.device))
    sources = 0 if batches[0].source is None else batches[0].source.numel()
    seconds_a_place = (time.perf_counter() - began) / (batches[0].ids.numel() + sources)
    tokens = sum(batch.tokens for batch in batches) / len(batches)
    return Forecast(
        steps=steps,
        tokens=round(steps * tokens),
        seconds=steps * median(timed or [0.0]),
        measuring_seconds=places_measured * seconds_a_place,
        memory_bytes=peak_memory_bytes(),
        parameters=sum(p.numel() for p in model.parameters()),
    )
