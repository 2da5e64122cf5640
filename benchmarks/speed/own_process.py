"""A contestant in a process of its own, which waits for its turn.

People run a training alone. How memory is asked for and given back holds for a whole process, and
regard changes it (`regard/core/malloc_tuning.py`): in one process with it others would have that
for nothing, and would not have it anywhere else.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from benchmarks.speed.contest import times_in_turn

QUIET = 0.1
"Seconds until the threads of whoever had the last turn no longer wait for more by counting."


class OwnProcess:
    """Started as `python -m MODULE ARGUMENTS`, where `take_turns` has to answer."""

    def __init__(
        self, module: str, *arguments: object, environment: Mapping[str, str] | None = None
    ) -> None:
        self._name = " ".join(map(str, (module, *arguments)))
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                **(environment or {}),
                "OMP_NUM_THREADS": str(torch.get_num_threads()),
            },
        )
        self.said: dict[str, Any] = self._heard()
        "What it told of itself before the first turn."

    def __call__(self) -> float:
        """One turn; the seconds that a run took."""
        assert self._process.stdin is not None
        time.sleep(QUIET)
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        seconds: float = self._heard()
        return seconds

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _heard(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended before its turn")
        return json.loads(line)


def times_by_process(
    contestants: Mapping[str, OwnProcess], *, rounds: int
) -> dict[str, list[float]]:
    """Of all in turn; then they end."""
    try:
        return times_in_turn(contestants, rounds=rounds)
    finally:
        for one in contestants.values():
            one.end()


def take_turns(
    run: Callable[[], object], *, warm_up: int = 2, often: int = 1, **said: object
) -> None:
    """In the process itself: tell, then run whenever asked to, so often in a turn."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for _ in range(warm_up):
        run()
    print(json.dumps(said), file=answers, flush=True)
    for _ in sys.stdin:
        gc.collect()
        began = time.perf_counter()
        for _ in range(often):
            run()
        print((time.perf_counter() - began) / often, file=answers, flush=True)
