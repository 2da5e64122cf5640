"""What regard's own kernels win beside torch's operations, on the same work.

    .venv-bench/bin/python -m benchmarks.kernels

Training steps and written tokens, each in two processes that take turns: one as it comes, one with
REGARD_KERNELS=off.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

import torch
from benchmarks.speed import generation, training
from benchmarks.speed.contest import OURS, ratio_by_round
from benchmarks.speed.own_process import OwnProcess, times_by_process
from benchmarks.speed.sizes import SIZES

OFF = {"REGARD_KERNELS": "off"}
Start = Callable[..., OwnProcess]
"A contestant, given its environment."


def main() -> None:
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    for work, start in works().items():
        taken = times_by_process(
            {"with": start(environment=None), "without": start(environment=OFF)}, rounds=7
        )
        told(work, {name: 1e3 * median(one) for name, one in taken.items()})
        ratio = ratio_by_round(taken["without"], taken["with"])
        print(f"  {ratio.value:.2f} times as quick [{ratio.low:.2f}, {ratio.high:.2f}]", flush=True)


def works() -> Mapping[str, Start]:
    steps = {
        f"one step, {size.name}, dropout {dropout:g}": partial(
            training.process_of, OURS, size, dropout=dropout
        )
        for size in SIZES
        for dropout in (0.0, 0.1)
    }
    texts = {
        f"{generation.NEW} tokens behind {count}, {choice}": partial(
            generation.process_of, OURS, count, choice
        )
        for count in generation.GOALS
        for choice in generation.CHOICES
    }
    return {**steps, **texts}


def told(work: str, milliseconds: Mapping[str, float]) -> None:
    figures = ", ".join(f"{name} {value:,.0f} ms" for name, value in milliseconds.items())
    print(f"{work}: {figures}", flush=True)


if __name__ == "__main__":
    main()
