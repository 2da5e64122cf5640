"""A contestant in a separate process that runs on request.

Malloc settings hold for a whole process, and regard changes them
(`regard/core/process/malloc_tuning.py`): in one process with regard, peers would get its tuning,
which they do not have when run alone. Threads are those that the process chooses itself.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.environment import user_environment
from benchmarks.speed.other_load import Timed, timed, undisturbed
from benchmarks.speed.timing import interleaved_times

SETTLE_SECONDS = 0.1
"Pause before a turn, until the OpenMP threads of the previous contestant stop spinning."


class WorkerProcess:
    """`python -m MODULE ARGUMENTS`, which has to call `serve_turns`."""

    def __init__(
        self, module: str, *arguments: object, environment: Mapping[str, str] | None = None
    ) -> None:
        self._name = " ".join(map(str, (module, *arguments)))
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=user_environment(environment),
        )
        self.info: dict[str, Any] = self._read()
        "What the worker reported before its first turn."

    def __call__(self) -> float:
        """One turn; returns the seconds of a run."""
        return undisturbed(self._turn).seconds

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _turn(self) -> Timed:
        assert self._process.stdin is not None
        time.sleep(SETTLE_SECONDS)
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Timed(*self._read())

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended before its turn")
        return json.loads(line)


def interleaved_process_times(
    contestants: Mapping[str, WorkerProcess], *, rounds: int
) -> dict[str, list[float]]:
    """Seconds by contestant and round; ends the processes afterwards."""
    try:
        return interleaved_times(contestants, rounds=rounds)
    finally:
        for worker in contestants.values():
            worker.end()


def serve_turns(
    run: Callable[[], object], *, warm_up: int = 2, repeats: int = 1, **info: object
) -> None:
    """In the worker: report `info`, then run `repeats` times for each line on stdin."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for _ in range(warm_up):
        run()
    print(json.dumps(info), file=answers, flush=True)
    for _ in sys.stdin:
        gc.collect()
        turn = timed(partial(_repeat, run, repeats))
        print(json.dumps((turn.seconds / repeats, turn.others)), file=answers, flush=True)


def _repeat(run: Callable[[], object], times: int) -> None:
    for _ in range(times):
        run()
