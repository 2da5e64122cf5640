"""A worker of the local engine, seen from the study: a process that takes one job after another.

It runs the hidden command `regard worker`. Orders and answers are lines of JSON:

    to its standard input       {"recipe": …, "folder": …, "log": …, "user_files": […],
                                 "expected": …}
                                {"stop": true}
    from its standard output    {"exit_code": 0, "takes_more": true}

At the end of its input the worker finishes its training and ends: so a study that is killed leaves
no process that waits, and no training that is lost. With `--abandon FOLDER` it ends at once and
removes that folder: on a node of a cluster, another one goes on with the training.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.core.process.thread_memory import check_thread_memory

READ_SECONDS = 5
STOP_SECONDS = 60
"How long a training may take to save a checkpoint before its process is killed."


class WorkerProcess:
    """A process of one thread; its imports and caches serve all its trainings."""

    def __init__(
        self,
        log: Path,
        *,
        wake: threading.Event,
        options: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> None:
        self.log = log
        "What it says before its first training, for instance why it cannot start."
        self._wake = wake
        self._answer: dict[str, Any] | None = None
        self._is_busy = False
        self._takes_more = True
        # One thread each, and waiting threads sleep: trainings share the cores.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "regard", "worker", *options],
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                # Ctrl-C reaches only the study, which then stops its workers.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        check_thread_memory()
        self._reader = threading.Thread(target=self._read_answers, daemon=True)
        self._reader.start()

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def is_free(self) -> bool:
        return self.is_alive and self._takes_more and not self._is_busy

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def train(
        self,
        folder: Path,
        *,
        recipe: Path,
        log: Path,
        user_files: Sequence[Path],
        expected: Mapping[str, Any] | None = None,
    ) -> None:
        """Train a recipe into a run folder; `expected`: inputs that are checked first."""
        self._is_busy, self._answer = True, None
        self._send(
            {
                "recipe": str(recipe),
                "folder": str(folder),
                "log": str(log),
                "user_files": [str(file) for file in user_files],
                "expected": expected,
            }
        )

    def poll(self) -> int | None:
        """The exit code of its training, once that has ended; negative: the signal that killed the
        process."""
        ended = self._process.poll()
        if ended is not None:
            self._reader.join(READ_SECONDS)  # what it answered before
        if self._answer is None:
            return ended
        self._is_busy, self._takes_more = False, bool(self._answer["takes_more"])
        return int(self._answer["exit_code"])

    def close(self) -> None:
        """Let it end once its training has."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()

    def request_stop(self) -> None:
        """Interrupt its training as Ctrl-C would: it saves a checkpoint, and the process ends."""
        self._send({"stop": True})
        self.close()

    def wait(self) -> None:
        """Until it has ended; a process that does not is killed."""
        try:
            self._process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended, which `poll` says
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            for line in answers:
                with suppress(ValueError):  # half a line: it was killed
                    self._answer = json.loads(line)
                self._wake.set()
        self._process.wait()
        self._wake.set()
