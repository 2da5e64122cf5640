"""Regard's training steps, exactly as `regard train` runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, islice

import torch
from benchmarks.speed.peers import MAX_GRAD_NORM
from benchmarks.speed.sizes import Size

from regard.batch import Batch
from regard.runs.experiment import Experiment
from regard.training.batch_loader import Cursor
from regard.training.device import Machine, choose_machine
from regard.training.loop import update
from regard.training.optimizer import build_optimizer
from regard.training.settings import Train
from regard.training.threads import training_threads

LR = 1e-5


def our_step(size: Size, *, dropout: float, **changes: object) -> Callable[[], float]:
    """A step on the same batch every time; returns its loss."""
    settings = Train(max_grad_norm=MAX_GRAD_NORM)
    machine = choose_machine("cpu", threads=settings.threads)
    step = _updates(size.model(dropout=dropout, **changes), settings, machine)
    batch = size.batch()
    return lambda: step(batch)


def our_command_step(size: Size, **changes: object) -> Callable[[], float]:
    """A step on the same batch every time, by the machine that `regard train` chooses for it."""
    settings, batch = Train(max_grad_norm=MAX_GRAD_NORM), size.batch()
    model = size.model(**changes)
    machine = choose_machine(settings.device, threads=training_threads(model, size.tokens))
    step = _updates(model, settings, machine)
    return lambda: step(batch)


def our_run(experiment: Experiment, batches: Sequence[Batch]) -> Callable[[], None]:
    """One step on each of these batches."""
    step = _updates(experiment.model, experiment.recipe.train, experiment.machine)

    def run() -> None:
        for batch in batches:
            step(batch)

    return run


def first_batches(experiment: Experiment, count: int) -> list[Batch]:
    """The first batches of a training run."""
    return [batch for batch, _ in islice(experiment.loader.batches_after(Cursor()), count)]


def _updates(model: torch.nn.Module, settings: Train, machine: Machine) -> Callable[[Batch], float]:
    optimizer, steps = build_optimizer(model.train(), settings), count(1)

    def step(batch: Batch) -> float:
        loss, _ = update(
            model,
            optimizer,
            batch,
            step=next(steps),
            lr=LR,
            settings=settings,
            machine=machine,
        )
        return loss

    return step
