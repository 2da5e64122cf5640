"""What each of regard's kernels wins over torch's operations, on the same work.

    .venv-bench/bin/python -m benchmarks.kernels --seed 20261119                 # half an hour
    .venv-bench/bin/python -m benchmarks.kernels --seed 20261119 --points 0:8    # adds to others
    .venv-bench/bin/python -m benchmarks.kernels --generation

A training step at points of the grid, with all kernels and with each one alone switched off, in
processes that take turns. A kernel counts where it is chosen: the mean over these points says
whether it is worth its code. Then generated tokens, with kernels and with REGARD_KERNELS=off.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

from benchmarks.environment import command_environment, restart_in_user_environment
from benchmarks.grid.__main__ import RESULTS, machine, turns_of
from benchmarks.grid.contestants import Contestant, ContestantProcess
from benchmarks.grid.one_kernel_off import ADDITIVE, PROGRAMS, WITHOUT, baseline_of
from benchmarks.grid.points import POINTS, draw_points
from benchmarks.speed import generation
from benchmarks.speed.sizes import Size
from benchmarks.speed.timing import OURS, Ratio, interleaved_times, ratio_by_round
from benchmarks.speed.worker_process import interleaved_process_times

from regard.core.process import cpu

OFF = {"REGARD_KERNELS": "off"}
WORTH = 1.1
"A kernel that wins less over the points where it is chosen goes."
MAX_ADDITIVE_PAIRS = 2**22
"Pairs and heads of a step: more take additive attention minutes without its kernel."


def main() -> None:
    restart_in_user_environment("benchmarks.kernels")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--points", default=f"0:{POINTS}", help="FIRST:END of the draw")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--generation", action="store_true")
    arguments = parser.parse_args()
    if arguments.generation:
        time_generation(rounds=arguments.rounds)
    if arguments.seed is not None:
        first, end = map(int, arguments.points.split(":"))
        time_grid(arguments.seed, slice(first, end), rounds=arguments.rounds)


def time_grid(seed: int, points: slice, *, rounds: int) -> None:
    file = RESULTS / f"kernels-{seed}-{cpu.simd_capability().lower()}.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["points"] if file.is_file() else []
    contestants = {
        name: ContestantProcess(Contestant(name, command_environment()))
        for name in (OURS, *PROGRAMS)
    }
    try:
        for size in draw_points(seed)[points]:
            row = {"name": size.name, "kernels": time_point(size, contestants, rounds=rounds)}
            rows = [*(other for other in rows if other["name"] != size.name), row]
            print(point_text(row), flush=True)
            results = {"seed": seed, "machine": machine(), "points": rows, **summary(rows)}
            file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    finally:
        for contestant in contestants.values():
            contestant.end()
    for kernel, figures in summary(rows)["kernels"].items():
        print(f"{kernel}: {figures}")


def time_point(
    size: Size, contestants: Mapping[str, ContestantProcess], *, rounds: int
) -> dict[str, Ratio]:
    """By kernel that is chosen here: the time without it over that with it."""
    fits = size.heads * size.tokens * size.positions <= MAX_ADDITIVE_PAIRS
    begun = {
        name: contestant.begin(size)
        for name, contestant in contestants.items()
        if fits or baseline_of(name) != ADDITIVE
    }
    chosen = [name for name in begun if _is_chosen(name, begun[baseline_of(name)]["operators"])]
    timed = sorted({*chosen, *map(baseline_of, chosen)})
    times = interleaved_times({name: turns_of(contestants[name]) for name in timed}, rounds=rounds)
    for name in begun:
        contestants[name].finish()
    return {
        name.partition(WITHOUT)[2]: ratio_by_round(times[name], times[baseline_of(name)])
        for name in chosen
    }


def _is_chosen(program: str, operators: Sequence[str]) -> bool:
    kernel = program.partition(WITHOUT)[2]
    return kernel in operators or (kernel == "all" and bool(operators))


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By kernel: geometric mean and worst over the points where it is chosen."""
    kernels = sorted({kernel for row in rows for kernel in row["kernels"]})
    return {"kernels": {kernel: _summary_of(kernel, rows) for kernel in kernels}}


def _summary_of(kernel: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ratios = {
        row["name"]: Ratio(*row["kernels"][kernel]) for row in rows if kernel in row["kernels"]
    }
    mean = math.exp(sum(math.log(ratio.value) for ratio in ratios.values()) / len(ratios))
    worst = min(ratios, key=lambda name: ratios[name].value)
    return {
        "points": len(ratios),
        "geometric_mean": round(mean, 3),
        "worth": mean >= WORTH,
        "worst": round(ratios[worst].value, 3),
        "worst_point": worst,
    }


def point_text(row: Mapping[str, Any]) -> str:
    ratios = ", ".join(
        f"{kernel} {ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
        for kernel, ratio in row["kernels"].items()
    )
    return f"{row['name']}: {ratios or 'no kernel is chosen'}"


def time_generation(*, rounds: int) -> None:
    """Kernels of decoding alone: prompts are short."""
    for count in generation.GOALS:
        for choice in generation.STRATEGIES:
            start = partial(generation.start_worker, OURS, count, choice)
            workers = {"with": start(environment=None), "without": start(environment=OFF)}
            times = interleaved_process_times(workers, rounds=rounds)
            ratio = ratio_by_round(times["without"], times["with"])
            milliseconds = {name: f"{1e3 * median(each):,.0f}" for name, each in times.items()}
            print(
                f"{generation.NEW_TOKENS} tokens, {count} prompts, {choice}: {milliseconds} ms, "
                f"{ratio.value:.2f}× faster [{ratio.low:.2f}, {ratio.high:.2f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
