"""One training step at two sizes against peers, with and without dropout, and its peak memory."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

import torch
from benchmarks.environment import command_environment
from benchmarks.speed.ours import our_step
from benchmarks.speed.peers import (
    HuggingFaceGpt2,
    PeerStep,
    XTransformer,
    build_plain_gpt,
    count_parameters,
)
from benchmarks.speed.sizes import NARROW, SIZES, WIDE, Size, matmul_peak
from benchmarks.speed.timing import (
    OURS,
    Ratio,
    Row,
    added_peak_megabytes,
    fastest_peer,
    ratio_by_round,
)
from benchmarks.speed.worker_process import WorkerProcess, interleaved_process_times, serve_turns

GROUP = "training"
GOALS = {(NARROW, 0.0): 2.0, (NARROW, 0.1): 2.0, (WIDE, 0.0): 1.2, (WIDE, 0.1): 1.7}
SAME_LOSS = 1e-4
STEPS = 3
"Steps in one turn: the first after a pause takes longer."
MEMORY_GOAL = 1 / 3
PEERS = ("plain GPT", "plain GPT, compiled", "transformers GPT-2", "x-transformers")


def peer_step(name: str, size: Size, *, dropout: float) -> PeerStep:
    ours, ids = size.model(dropout=dropout), size.ids()
    if name.startswith("plain GPT"):
        model = build_plain_gpt(size, ours, dropout=dropout)
        return PeerStep(model, ids, loss=torch.compile(model) if "compiled" in name else None)
    if name == "transformers GPT-2":
        return PeerStep(HuggingFaceGpt2(size, ours, dropout=dropout).train(), ids)
    return PeerStep(XTransformer(size, dropout=dropout).train(), ids)


def start_worker(
    name: str, size: Size, *, dropout: float, environment: Mapping[str, str] | None = None
) -> WorkerProcess:
    return WorkerProcess(
        "benchmarks.speed.training",
        "--worker",
        name,
        SIZES.index(size),
        dropout,
        environment=command_environment(environment) if name == OURS else environment,
    )


def serve_worker(name: str, size: Size, *, dropout: float) -> None:
    if name == OURS:
        step, parameters = our_step(size, dropout=dropout), size.model().parameters()
        serve_turns(step, repeats=STEPS, loss=step(), parameters=count_parameters(parameters))
    else:
        peer = peer_step(name, size, dropout=dropout)
        serve_turns(
            peer, repeats=STEPS, loss=peer(), parameters=count_parameters(peer.model.parameters())
        )


def compare(size: Size, *, dropout: float, rounds: int, peak: float) -> Row:
    contestants = {name: start_worker(name, size, dropout=dropout) for name in (OURS, *PEERS)}
    times = interleaved_process_times(contestants, rounds=rounds)
    best = fastest_peer(times)
    fraction = size.step_operations / median(times[OURS]) / peak
    return Row(
        GROUP,
        f"one step, {size.name}, {size.rows} × {size.positions} tokens, dropout {dropout:g}",
        "ms",
        {name: 1e3 * median(seconds) for name, seconds in times.items()},
        ratio_by_round(times[best], times[OURS]),
        f"time of {best} ÷ ours",
        GOALS[size, dropout],
        same_work=same_work(
            size, {name: worker.info for name, worker in contestants.items()}, dropout=dropout
        ),
        notes=[f"{100 * fraction:.0f} % of the matmul peak ({peak / 1e9:.0f} GFLOP/s)"],
    )


def same_work(size: Size, infos: Mapping[str, Mapping[str, Any]], *, dropout: float) -> str:
    """Raise if contestants differ in parameters, or in the loss from the same weights."""
    ours = infos[OURS]["parameters"]
    for name, info in infos.items():
        theirs = info["parameters"]
        if abs(theirs - ours) > 0.01 * ours:
            raise RuntimeError(f"{name} has {theirs:,} parameters, regard {ours:,}")
    work = f"{ours:,} parameters (others within 1 %), {size.tokens:,} tokens a step"
    if dropout:  # losses differ by their random masks
        return work
    losses = {name: info["loss"] for name, info in infos.items() if name != "x-transformers"}
    difference = max(losses.values()) - min(losses.values())
    if not difference <= SAME_LOSS:
        raise RuntimeError(f"losses from the same weights differ by {difference:.2g}: {losses}")
    return (
        f"{work}; loss from the same weights within {difference:.1g} "
        "(not x-transformers: own weights)"
    )


def memory_row() -> Row:
    """Each contestant in a separate process: three steps of 12,800 tokens."""
    megabytes = {name: peak_memory_in_subprocess(name) for name in (OURS, *PEERS)}
    leanest = min((name for name in megabytes if name != OURS), key=lambda name: megabytes[name])
    return Row(
        "memory",
        f"peak of training, {NARROW.name}, 12,800 tokens a step",
        "MB",
        megabytes,
        Ratio.single(megabytes[OURS] / megabytes[leanest]),
        f"ours ÷ {leanest}",
        MEMORY_GOAL,
        better="lower",
        notes=["above what the process holds before the model is built"],
    )


def peak_memory_in_subprocess(name: str) -> float:
    command = [sys.executable, "-m", "benchmarks.speed.training", "--memory-of", name]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(output.splitlines()[-1]))


def peak_memory(name: str) -> float:
    """Peak MB that three steps add to this process."""
    size = Size(NARROW.name, 48, 3, 3, 26_600, rows=128, positions=100)
    if name == "x-transformers":
        import x_transformers  # noqa: F401
    if name == "transformers GPT-2":
        import transformers  # noqa: F401

    def train() -> None:
        step = our_step(size, dropout=0.0) if name == OURS else peer_step(name, size, dropout=0.0)
        for _ in range(3):
            step()

    return added_peak_megabytes(train)


def rows(*, rounds: int = 7) -> Iterator[Row]:
    peak = matmul_peak()
    for size, dropout in GOALS:
        yield compare(size, dropout=dropout, rounds=rounds, peak=peak)
    yield memory_row()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory-of")
    parser.add_argument("--worker", nargs=3, metavar=("NAME", "SIZE", "DROPOUT"))
    arguments = parser.parse_args()
    if arguments.memory_of:
        print(json.dumps(peak_memory(arguments.memory_of)))
    else:
        name, index, dropout = arguments.worker
        serve_worker(name, SIZES[int(index)], dropout=float(dropout))
