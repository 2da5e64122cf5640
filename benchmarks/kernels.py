"""Speedup by regard's kernels over torch's operations, on the same work.

    .venv-bench/bin/python -m benchmarks.kernels

Training steps and generated tokens, each in two processes that take turns: one with the kernels,
one with REGARD_KERNELS=off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

from benchmarks.speed import generation, training
from benchmarks.speed.sizes import SIZES
from benchmarks.speed.timing import OURS, ratio_by_round
from benchmarks.speed.worker_process import WorkerProcess, interleaved_process_times

OFF = {"REGARD_KERNELS": "off"}
StartProcess = Callable[..., WorkerProcess]
"Starts a workload, given its environment."


def main() -> None:
    for name, start in workloads().items():
        times = interleaved_process_times(
            {"with": start(environment=None), "without": start(environment=OFF)}, rounds=7
        )
        print_times(name, {variant: 1e3 * median(each) for variant, each in times.items()})
        ratio = ratio_by_round(times["without"], times["with"])
        print(f"  {ratio.value:.2f}× faster [{ratio.low:.2f}, {ratio.high:.2f}]", flush=True)


def workloads() -> Mapping[str, StartProcess]:
    steps = {
        f"one step, {size.name}, dropout {dropout:g}": partial(
            training.start_worker, OURS, size, dropout=dropout
        )
        for size in SIZES
        for dropout in (0.0, 0.1)
    }
    generations = {
        f"{generation.NEW_TOKENS} tokens, {count} prompt{'s'[: count > 1]}, {choice}": partial(
            generation.start_worker, OURS, count, choice
        )
        for count in generation.GOALS
        for choice in generation.STRATEGIES
    }
    return {**steps, **generations}


def print_times(name: str, milliseconds: Mapping[str, float]) -> None:
    times = ", ".join(f"{variant} {value:,.0f} ms" for variant, value in milliseconds.items())
    print(f"{name}: {times}", flush=True)


if __name__ == "__main__":
    main()
