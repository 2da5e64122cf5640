"""Contestants of the grid: each a process that forks a child for every point.

    python -m benchmarks.grid.contestants regard

A command starts with a fresh heap and idle threads, and so does every child; only imports are
shared. A contestant has what its own code sets up, and the environment of a user's shell: no thread
count or wait policy is set there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from benchmarks.environment import MEMORY_KEPT, command_environment
from benchmarks.grid.one_kernel_off import is_ours, operators_of, our_step_without
from benchmarks.speed.other_load import Timed, timed, undisturbed
from benchmarks.speed.peers import PeerStep, build_plain_gpt, count_parameters
from benchmarks.speed.sizes import Size
from benchmarks.speed.timing import OURS


@dataclass(frozen=True)
class Contestant:
    """A program, and the environment its user gives it."""

    program: str
    environment: Mapping[str, str] = field(default_factory=dict)


GPT, COMPILED = "plain GPT", "plain GPT, compiled"
PEERS = {
    GPT: Contestant(GPT),
    f"{GPT}, memory kept": Contestant(GPT, MEMORY_KEPT),
    COMPILED: Contestant(COMPILED),
    f"{COMPILED}, memory kept": Contestant(COMPILED, MEMORY_KEPT),
}
CONTESTANTS = {OURS: Contestant(OURS, command_environment()), **PEERS}


class ContestantProcess:
    """A contestant that has imported everything, and builds a point when asked for it."""

    def __init__(self, contestant: Contestant) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.grid.contestants", contestant.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **contestant.environment},
        )
        self.most_disturbed = 0.0
        "What others took of the machine during a turn that counts, at most."

    def begin(self, size: Size) -> dict[str, Any]:
        """Build the point and run it once; returns parameters, loss and threads."""
        self.most_disturbed = 0.0
        info: dict[str, Any] = self._ask(asdict(size))
        return info

    def turn(self, steps: int) -> float:
        """Seconds of a step, in a turn of this many."""
        turn = undisturbed(lambda: Timed(*self._ask(steps)))
        self.most_disturbed = max(self.most_disturbed, turn.others)
        return turn.seconds / steps

    def finish(self) -> None:
        self._ask(0)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ask(self, request: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a contestant ended: {self._process.args}")
        return json.loads(line)


def serve_points(program: str) -> None:
    """In the contestant: a child for each point on stdin, which takes its turns from there on."""
    answers, sys.stdout = sys.stdout, sys.stderr
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            try:
                _serve_turns(program, Size(**json.loads(line)), partial(_answer, answers))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit("a point was not finished")
        _answer(answers, None)


def _answer(answers: Any, value: object) -> None:
    print(json.dumps(value), file=answers, flush=True)


def _serve_turns(program: str, size: Size, answer: Callable[[object], None]) -> None:
    step, parameters = build_step(program, size)
    info = {"loss": step(), "parameters": parameters, "threads": torch.get_num_threads()}
    if is_ours(program):
        info["operators"] = operators_of(step)
    step()
    answer(info)
    while steps := int(sys.stdin.readline()):
        answer(timed(partial(_repeat, step, steps)))


def _repeat(step: Callable[[], float], steps: int) -> None:
    for _ in range(steps):
        step()


def build_step(program: str, size: Size) -> tuple[Callable[[], float], int]:
    """A step, and the number of its parameters."""
    ours = size.model()
    if is_ours(program):
        return our_step_without(program, size), count_parameters(ours.parameters())
    model = build_plain_gpt(size, ours, dropout=0.0)
    loss = torch.compile(model) if program == COMPILED else None
    return PeerStep(model, size.ids(), loss=loss), count_parameters(model.parameters())


if __name__ == "__main__":
    serve_points(sys.argv[1])
