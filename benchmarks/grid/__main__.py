"""Time a training step at points drawn from a grid of shapes, against plain GPT.

    .venv-bench/bin/python -m benchmarks.grid --seed 20261119                  # all peers, an hour
    .venv-bench/bin/python -m benchmarks.grid --seed 1 --peers "plain GPT" "plain GPT, memory kept"
    .venv-bench/bin/python -m benchmarks.grid --seed 1 --points 0:8            # adds to the others
    .venv-bench/bin/python -m benchmarks.grid --seed 1 --compile               # before a run

The ratio of a point is the time of its best peer over ours, by round. Kernels and thread counts are
tuned on one draw and reported on another; a seed is a draw. Where other work runs, put `chrt -r 1`
before the command: it gives way. Writes
benchmarks/results/grid-<seed>-<simd>.json and a picture beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import torch
from benchmarks.bench import cpu_name
from benchmarks.environment import has_real_time_priority, restart_in_user_environment
from benchmarks.grid.contestants import COMPILED, CONTESTANTS, PEERS, ContestantProcess
from benchmarks.grid.picture import write_picture
from benchmarks.grid.points import NANOGPT, POINTS, draw_points
from benchmarks.grid.results import summary, together
from benchmarks.speed.sizes import Size
from benchmarks.speed.timing import OURS, fastest_peer, interleaved_times, ratio_by_round

from regard.core.process import cpu
from regard.ops.cpu import library

RESULTS = Path(__file__).parents[1] / "results"
TURN_SECONDS = 0.2
"""Of a turn at least: single steps of a few milliseconds vary too much, and nobody could say
whether other processes disturbed them."""
SETTLE_SECONDS = 0.02
"Pause before a turn: threads of the contestant before it spin for a while."
SAME_LOSS = 2e-4


def main() -> None:
    restart_in_user_environment("benchmarks.grid")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--points", default=f"0:{POINTS}", help="FIRST:END of the draw")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="fill torch's cache, time nothing")
    arguments = parser.parse_args()
    file = RESULTS / f"grid-{arguments.seed}-{cpu.simd_capability().lower()}.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["points"] if file.is_file() else []
    first, end = map(int, arguments.points.split(":"))
    sizes = [*([NANOGPT] if first == 0 else []), *draw_points(arguments.seed)[first:end]]
    if arguments.compile:
        compile_points(sizes)
        return
    contestants = {name: ContestantProcess(CONTESTANTS[name]) for name in (OURS, *arguments.peers)}
    try:
        for size in sizes:
            row = time_point(size, contestants, rounds=arguments.rounds)
            rows = [*(other for other in rows if other["name"] != size.name), row]
            print(row_text(row), flush=True)
            results = {
                "date": date.today().isoformat(),
                "seed": arguments.seed,
                "machine": machine(),
                "drawn": sum(row["name"] != NANOGPT.name for row in rows),
                "peers": peers_of_all(rows),
                "points": rows,
                **summary(rows),
            }
            file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    finally:
        for contestant in contestants.values():
            contestant.end()
    print(summary(rows))
    write_picture(together([results]), file.with_suffix(".png"))


def compile_points(sizes: Sequence[Size]) -> None:
    """So that a machine that is kept at rest for the timing does not wait for the compiler."""
    contestant = ContestantProcess(CONTESTANTS[COMPILED])
    for size in sizes:
        contestant.begin(size)
        contestant.finish()
        print(f"compiled: {size.name}", flush=True)
    contestant.end()


def time_point(
    size: Size, contestants: Mapping[str, ContestantProcess], *, rounds: int
) -> dict[str, Any]:
    infos = {name: contestant.begin(size) for name, contestant in contestants.items()}
    check_same_work(size, infos)
    times = interleaved_times(
        {name: turns_of(contestant) for name, contestant in contestants.items()}, rounds=rounds
    )
    for contestant in contestants.values():
        contestant.finish()
    best = fastest_peer(times)
    ratio = ratio_by_round(times[best], times[OURS])
    return {
        "name": size.name,
        "width": size.width,
        "tokens": size.tokens,
        "vocabulary": size.vocabulary,
        "context": size.positions,
        "layers": size.layers,
        "heads": size.heads,
        "tera_operations": size.step_operations / 1e12,
        "threads": infos[OURS]["threads"],
        "milliseconds": {name: 1e3 * median(seconds) for name, seconds in times.items()},
        "best_peer": best,
        "others": max(contestant.most_disturbed for contestant in contestants.values()),
        **ratio._asdict(),
    }


def turns_of(contestant: ContestantProcess) -> Any:
    time.sleep(SETTLE_SECONDS)
    steps = max(1, math.ceil(TURN_SECONDS / contestant.turn(1)))

    def turn() -> float:
        time.sleep(SETTLE_SECONDS)
        return contestant.turn(steps)

    return turn


def check_same_work(size: Size, infos: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise where parameters differ, or the loss from the same weights."""
    if len({info["parameters"] for info in infos.values()}) > 1:
        raise RuntimeError(f"{size.name}: parameters differ: {infos}")
    losses = [info["loss"] for info in infos.values()]
    if not max(losses) - min(losses) <= SAME_LOSS:
        raise RuntimeError(f"{size.name}: losses from the same weights differ: {infos}")


def peers_of_all(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The peers that every point was timed against; a point may have had more."""
    return [peer for peer in PEERS if all(peer in row["milliseconds"] for row in rows)]


def machine() -> dict[str, Any]:
    return {
        "cores": cpu.usable_cores(),
        "cpu": cpu_name(),
        "simd": cpu.simd_capability(),
        "kernels": library.description(),
        "torch": torch.__version__,
        "real_time": has_real_time_priority(),
    }


def row_text(row: Mapping[str, Any]) -> str:
    times = ", ".join(f"{name} {value:.1f}" for name, value in row["milliseconds"].items())
    return (
        f"{row['value']:.2f} [{row['low']:.2f}, {row['high']:.2f}] {row['name']} "
        f"({row['tera_operations']:.3f} TFLOP, {row['threads']} threads, others "
        f"{row['others']:.0%}): {times} ms"
    )


if __name__ == "__main__":
    main()
