"""One training step at two sizes, against peers, with and without dropout; and its peak memory."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

import torch
from benchmarks.speed.contest import (
    OURS,
    Ratio,
    Row,
    added_megabytes,
    fastest_other,
    ratio_by_round,
)
from benchmarks.speed.ours import our_step
from benchmarks.speed.own_process import OwnProcess, take_turns, times_by_process
from benchmarks.speed.peers import (
    HuggingFaceGpt2,
    PeerStep,
    XTransformer,
    count,
    plain,
)
from benchmarks.speed.sizes import NARROW, SIZES, WIDE, Size, matmul_peak

GROUP = "training"
GOALS = {(NARROW, 0.0): 2.0, (NARROW, 0.1): 2.0, (WIDE, 0.0): 1.2, (WIDE, 0.1): 1.7}
SAME_LOSS = 1e-4
STEPS = 3
"Of one turn: after a rest a first step takes longer."
MEMORY_GOAL = 1 / 3
PEERS = ("plain GPT", "plain GPT, compiled", "transformers GPT-2", "x-transformers")


def peer_step(name: str, size: Size, *, dropout: float) -> PeerStep:
    ours, ids = size.model(dropout=dropout), size.ids()
    if name.startswith("plain GPT"):
        model = plain(size, ours, dropout=dropout)
        return PeerStep(model, ids, loss=torch.compile(model) if "compiled" in name else None)
    if name == "transformers GPT-2":
        return PeerStep(HuggingFaceGpt2(size, ours, dropout=dropout).train(), ids)
    return PeerStep(XTransformer(size, dropout=dropout).train(), ids)


def process_of(
    name: str, size: Size, *, dropout: float, environment: Mapping[str, str] | None = None
) -> OwnProcess:
    return OwnProcess(
        "benchmarks.speed.training",
        "--turns-of",
        name,
        SIZES.index(size),
        dropout,
        environment=environment,
    )


def turns_of(name: str, size: Size, *, dropout: float) -> None:
    if name == OURS:
        step, parameters = our_step(size, dropout=dropout), size.model().parameters()
        take_turns(step, often=STEPS, loss=step(), parameters=count(parameters))
    else:
        peer = peer_step(name, size, dropout=dropout)
        take_turns(peer, often=STEPS, loss=peer(), parameters=count(peer.model.parameters()))


def contest(size: Size, *, dropout: float, rounds: int, peak: float) -> Row:
    contestants = {name: process_of(name, size, dropout=dropout) for name in (OURS, *PEERS)}
    taken = times_by_process(contestants, rounds=rounds)
    best = fastest_other(taken)
    share = size.step_operations / median(taken[OURS]) / peak
    return Row(
        GROUP,
        f"one step, {size.name}, {size.rows} × {size.positions} tokens, dropout {dropout:g}",
        "ms",
        {name: 1e3 * median(seconds) for name, seconds in taken.items()},
        ratio_by_round(taken[best], taken[OURS]),
        f"time of {best} ÷ ours",
        GOALS[size, dropout],
        same_work=same_work(
            size, {name: one.said for name, one in contestants.items()}, dropout=dropout
        ),
        notes=[f"{100 * share:.0f} % of the matmul peak ({peak / 1e9:.0f} GFLOP/s)"],
    )


def same_work(size: Size, said: Mapping[str, Mapping[str, Any]], *, dropout: float) -> str:
    """Refuse a contest in which somebody does something else."""
    own = said[OURS]["parameters"]
    for name, told in said.items():
        number = told["parameters"]
        if abs(number - own) > 0.01 * own:
            raise RuntimeError(f"{name} has {number:,} parameters, regard {own:,}")
    work = f"{own:,} parameters (others within 1 %), {size.tokens:,} tokens a step"
    if dropout:  # each draws its own: losses differ by that
        return work
    copied = {name: told["loss"] for name, told in said.items() if name != "x-transformers"}
    apart = max(copied.values()) - min(copied.values())
    if not apart <= SAME_LOSS:
        raise RuntimeError(f"from the same weights the losses differ by {apart:.2g}: {copied}")
    return (
        f"{work}; loss from the same weights within {apart:.1g} (not x-transformers: own weights)"
    )


def memory_row() -> Row:
    """Each contestant in a process of its own: three steps of 12,800 tokens."""
    held = {name: measured_alone(name) for name in (OURS, *PEERS)}
    leanest = min((name for name in held if name != OURS), key=lambda name: held[name])
    return Row(
        "memory",
        f"peak of training, {NARROW.name}, 12,800 tokens a step",
        "MB",
        held,
        Ratio.of_one(held[OURS] / held[leanest]),
        f"ours ÷ {leanest}",
        MEMORY_GOAL,
        better="lower",
        notes=["above what the process holds before the model is built"],
    )


def measured_alone(name: str) -> float:
    command = [sys.executable, "-m", "benchmarks.speed.training", "--memory-of", name]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(told.splitlines()[-1]))


def memory_of(name: str) -> float:
    """MB that three steps add to this process at most."""
    size = Size(NARROW.name, 48, 3, 3, 26_600, rows=128, positions=100)
    if name == "x-transformers":
        import x_transformers  # noqa: F401
    if name == "transformers GPT-2":
        import transformers  # noqa: F401

    def train() -> None:
        step = our_step(size, dropout=0.0) if name == OURS else peer_step(name, size, dropout=0.0)
        for _ in range(3):
            step()

    return added_megabytes(train)


def rows(*, rounds: int = 7) -> Iterator[Row]:
    peak = matmul_peak()
    for size, dropout in GOALS:
        yield contest(size, dropout=dropout, rounds=rounds, peak=peak)
    yield memory_row()


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--memory-of")
    asked.add_argument("--turns-of", nargs=3, metavar=("NAME", "SIZE", "DROPOUT"))
    given = asked.parse_args()
    if given.memory_of:
        print(json.dumps(memory_of(given.memory_of)))
    else:
        who, number, share = given.turns_of
        turns_of(who, SIZES[int(number)], dropout=float(share))
