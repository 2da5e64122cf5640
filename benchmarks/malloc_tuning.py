"""What peers would gain from malloc tuning like regard's.

    .venv-bench/bin/python -m benchmarks.malloc_tuning

regard tells glibc to keep freed memory (`regard/core/malloc_tuning.py`). Anybody can do so by
environment variables; hardly anybody does. Each peer takes its training step untuned and tuned, in
turn with regard.
"""

from __future__ import annotations

import os
from statistics import median

import torch
from benchmarks.speed.contest import OURS, ratio_by_round
from benchmarks.speed.own_process import times_by_process
from benchmarks.speed.sizes import SIZES, Size
from benchmarks.speed.training import process_of

TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(10**11)}
"All freed memory is kept, also blocks larger than those that regard allocates and keeps."
PEERS = ("plain GPT", "plain GPT, compiled")


def main() -> None:
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    for size in SIZES:
        compare(size)


def compare(size: Size) -> None:
    variants: dict[str, tuple[str, dict[str, str]]] = {OURS: (OURS, {})}
    for peer in PEERS:
        variants |= {peer: (peer, {}), f"{peer}, malloc tuned": (peer, TUNED)}
    processes = {
        label: process_of(name, size, dropout=0.0, environment=environment)
        for label, (name, environment) in variants.items()
    }
    times = times_by_process(processes, rounds=7)
    print(f"one step, {size.name}")
    for label, seconds in times.items():
        ratio = ratio_by_round(seconds, times[OURS]).value
        print(f"  {label:34} {1e3 * median(seconds):7.0f} ms   ÷ regard {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
