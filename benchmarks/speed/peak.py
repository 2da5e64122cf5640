"""A training step as a fraction of the matmul peak: a step and a large matmul, interleaved."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import torch
from benchmarks.speed import training
from benchmarks.speed.sizes import WIDE
from benchmarks.speed.timing import OURS, Row, ratio_by_round
from benchmarks.speed.worker_process import WorkerProcess, interleaved_process_times, serve_turns

GOAL = 0.7
SIDE = 1024
MATMUL = f"matmul of {SIDE:,} × {SIDE:,}"
REPEATS = 100
"Matmuls in one turn."


def rows(*, rounds: int = 7) -> Iterator[Row]:
    contestants = {
        OURS: training.start_worker(OURS, WIDE, dropout=0.0),
        MATMUL: WorkerProcess("benchmarks.speed.peak"),
    }
    times = interleaved_process_times(contestants, rounds=rounds)
    operations = {OURS: WIDE.step_operations, MATMUL: 2 * SIDE**3}
    step_at_peak = [seconds * operations[OURS] / operations[MATMUL] for seconds in times[MATMUL]]
    yield Row(
        training.GROUP,
        f"one step, {WIDE.name}, dropout 0: fraction of the matmul peak, measured in turn",
        "GFLOP/s",
        {name: operations[name] / median(seconds) / 1e9 for name, seconds in times.items()},
        ratio_by_round(step_at_peak, times[OURS]),
        f"ours ÷ {MATMUL}",
        GOAL,
        notes=[f"{WIDE.step_operations / 1e9:.1f} GFLOP a step by the formula; means over a turn"],
    )


if __name__ == "__main__":
    a, b = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    serve_turns(lambda: torch.mm(a, b), repeats=REPEATS)
