"""What peers would win if they kept freed memory as regard does.

    .venv-bench/bin/python -m benchmarks.kept_memory

regard tells glibc to keep what is freed (`regard/core/malloc_tuning.py`). Anybody can, in the
environment; hardly anybody does. Each peer takes its training step as it comes and with all memory
kept, in turn with regard's.
"""

from __future__ import annotations

import os
from statistics import median

import torch
from benchmarks.speed.contest import OURS, ratio_by_round
from benchmarks.speed.own_process import times_by_process
from benchmarks.speed.sizes import SIZES, Size
from benchmarks.speed.training import process_of

KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(10**11)}
"Whatever is freed is kept, also what is larger than the blocks that regard makes and keeps."
PEERS = ("plain GPT", "plain GPT, compiled")


def main() -> None:
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    for size in SIZES:
        contest(size)


def contest(size: Size) -> None:
    asked = {OURS: (OURS, {})}
    for peer in PEERS:
        asked |= {peer: (peer, {}), f"{peer}, memory kept": (peer, KEPT)}
    contestants = {
        label: process_of(name, size, dropout=0.0, environment=told)
        for label, (name, told) in asked.items()
    }
    taken = times_by_process(contestants, rounds=7)
    print(f"one step, {size.name}")
    for label, seconds in taken.items():
        ratio = ratio_by_round(seconds, taken[OURS]).value
        print(f"  {label:34} {1e3 * median(seconds):7.0f} ms   ÷ regard {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
