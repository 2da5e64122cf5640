"""What peers would gain from malloc tuning like regard's.

    .venv-bench/bin/python -m benchmarks.malloc_tuning

regard configures glibc to retain freed memory (`regard/core/process/malloc_tuning.py`), which
environment variables can do for any program. Each peer runs its training step untuned and tuned,
interleaved with regard.
"""

from __future__ import annotations

from statistics import median

from benchmarks.environment import MEMORY_KEPT
from benchmarks.speed.sizes import SIZES, Size
from benchmarks.speed.timing import OURS, ratio_by_round
from benchmarks.speed.training import start_worker
from benchmarks.speed.worker_process import interleaved_process_times

PEERS = ("plain GPT", "plain GPT, compiled")


def main() -> None:
    for size in SIZES:
        compare(size)


def compare(size: Size) -> None:
    variants: dict[str, tuple[str, dict[str, str]]] = {OURS: (OURS, {})}
    for peer in PEERS:
        variants |= {peer: (peer, {}), f"{peer}, malloc tuned": (peer, MEMORY_KEPT)}
    processes = {
        label: start_worker(name, size, dropout=0.0, environment=environment)
        for label, (name, environment) in variants.items()
    }
    times = interleaved_process_times(processes, rounds=7)
    print(f"one step, {size.name}")
    for label, seconds in times.items():
        ratio = ratio_by_round(seconds, times[OURS]).value
        print(f"  {label:34} {1e3 * median(seconds):7.0f} ms   ÷ regard {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
