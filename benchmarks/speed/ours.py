"""Regard's side of a contest: updates exactly as `regard train` makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, islice

import torch
from benchmarks.speed.peers import CLIP
from benchmarks.speed.sizes import Size

from regard.batch import Batch
from regard.runs.experiment import Experiment
from regard.training.batch_loader import Cursor
from regard.training.device import Machine, choose_machine
from regard.training.loop import update
from regard.training.optimizer import build_optimizer
from regard.training.settings import Train

LR = 1e-5


def our_step(size: Size, *, dropout: float, **changes: object) -> Callable[[], float]:
    """One batch again and again; gives its loss."""
    threads = torch.get_num_threads()
    machine = choose_machine("cpu", threads=threads)
    step = _updates(
        size.model(dropout=dropout, **changes), Train(max_grad_norm=CLIP, threads=threads), machine
    )
    batch = size.batch()
    return lambda: step(batch)


def our_run(bench: Experiment, batches: Sequence[Batch]) -> Callable[[], None]:
    """All of these batches, each once."""
    step = _updates(bench.model, bench.recipe.train, bench.machine)

    def run() -> None:
        for batch in batches:
            step(batch)

    return run


def first_batches(bench: Experiment, count: int) -> list[Batch]:
    """Those that a training would begin with."""
    return [batch for batch, _ in islice(bench.stream.batches_after(Cursor()), count)]


def _updates(model: torch.nn.Module, settings: Train, machine: Machine) -> Callable[[Batch], float]:
    optimizer, numbers = build_optimizer(model.train(), settings), count(1)

    def step(batch: Batch) -> float:
        loss, _ = update(
            model,
            optimizer,
            batch,
            step=next(numbers),
            lr=LR,
            settings=settings,
            machine=machine,
        )
        return loss

    return step
