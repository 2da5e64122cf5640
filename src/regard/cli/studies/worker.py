"""`regard worker`, hidden: trains what a study sends on standard input, one recipe after another.

What each training prints goes to its own log. Its own files are executed again for each. Where one
leaves something behind for the next (`core/process/process_state.py`), the process ends, and the
study starts another. The messages are listed in `studies/engines/worker_process.py`.
"""

from __future__ import annotations

import _thread
import importlib
import json
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from regard.core.process.thread_memory import check_thread_memory

Request = Mapping[str, Any]
RESULTS_TABLE = "regard.cli.training.results_table"
SIGNALLED = 128
"Exit codes above it say which signal stopped a command."
ABANDONED = 1


def worker(
    abandon: Annotated[
        Path | None,
        typer.Option(help="Where the input ends, end at once and remove this folder."),
    ] = None,
) -> None:
    """Train what `regard compare` sends on standard input."""
    orders, answers = _take_over(0, "rb"), _take_over(1, "wb")
    from regard.core.process.process_state import ProcessState

    _import_all()
    inbox = Inbox(orders, abandon=abandon)
    fresh = ProcessState.now()
    with suppress(KeyboardInterrupt):  # asked to stop between two trainings
        while (request := inbox.next_request()) is not None:
            exit_code = _train(request)
            inbox.is_training = False
            stopped = inbox.stopping or exit_code > SIGNALLED
            takes_more = not (stopped or fresh.changes() or _may_leave_more(request))
            answer = {"exit_code": exit_code, "takes_more": takes_more}
            try:
                answers.write(json.dumps(answer).encode() + b"\n")
                answers.flush()
            except OSError:  # the study was killed
                break
            if not takes_more:
                break
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # torch takes a while to be torn down


class Inbox:
    """Orders, read in a thread: a study can stop its worker in the middle of a training."""

    def __init__(self, orders: IO[bytes], *, abandon: Path | None = None) -> None:
        self._abandon = abandon
        self.stopping = False
        self.is_training = False
        self._requests: queue.Queue[Request | None] = queue.Queue()
        check_thread_memory()
        threading.Thread(target=self._read, args=(orders,), daemon=True).start()

    def next_request(self) -> Request | None:
        """The next one; None at the end, or once stopped."""
        request = self._requests.get()
        self.is_training = True
        return None if self.stopping else request

    def _read(self, orders: IO[bytes]) -> None:
        for line in orders:
            try:
                request = json.loads(line)
            except ValueError:  # half a line: the study was killed
                break
            if request.get("stop"):
                self.stopping = True
                if self.is_training:
                    _thread.interrupt_main(signal.SIGINT)
            else:
                self._requests.put(request)
        if self._abandon is not None and not self.stopping:
            shutil.rmtree(self._abandon, ignore_errors=True)
            os._exit(ABANDONED)
        self._requests.put(None)


def _train(request: Request) -> int:
    """Train as `regard train` would, without its page; the exit code."""
    from regard.cli.exit_codes import run_command
    from regard.core.process.peak_memory import reset_peak_memory
    from regard.core.process.process_state import as_in_a_fresh_process
    from regard.core.user_files import loaded_files, unload

    with _output_to(Path(request["log"])), as_in_a_fresh_process():
        reset_peak_memory()
        try:
            run_command(lambda: _train_and_print(request))
        except SystemExit as ended:
            return int(ended.code or 0)
        finally:
            for file in loaded_files():  # the next training executes them again
                unload(file)
    return 0


def _train_and_print(request: Request) -> None:
    from regard.cli.training.results_table import print_results
    from regard.cli.training.train import train_recipe

    if request.get("expected"):
        from regard.studies.engines.ray.inputs import check_expected

        check_expected(request["expected"])
    folder = Path(request["folder"])
    files = [Path(file) for file in request["user_files"]]
    try:
        run = train_recipe(Path(request["recipe"]), out=folder, resume=True, user_files=files)
    except typer.Exit as ended:  # a signal stopped it
        raise SystemExit(ended.exit_code) from None
    print_results(run.results(), title=str(folder))


def _may_leave_more(request: Request) -> bool:
    """Whether its own files may leave behind what no comparison finds."""
    from regard.runs.audit_cache.self_contained import leaves_nothing_behind

    files = [Path(file) for file in request["user_files"]]
    with suppress(OSError):
        return not all(leaves_nothing_behind(file.read_bytes()) for file in files)
    return True


def _import_all() -> None:
    """What a training imports, before the first one is ordered."""
    for module in ("regard.api", "regard.progress.training_display", RESULTS_TABLE):
        importlib.import_module(module)


def _take_over(number: int, mode: str) -> Any:
    """A standard stream under a number of its own, which no child process inherits; who reads the
    former finds nothing, and what is written there goes to standard error."""
    private = os.fdopen(os.dup(number), mode)
    if number == 0:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, number)
        os.close(nothing)
    else:
        os.dup2(2, number)
    return private


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Standard output and error of this process, and of those it starts, go to a file."""
    before = [os.dup(number) for number in (1, 2)]
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        _point_streams(target, target)
        yield
    finally:
        _point_streams(*before)
        for number in (*before, target):
            os.close(number)


def _point_streams(output: int, errors: int) -> None:
    for stream, number, target in ((sys.stdout, 1, output), (sys.stderr, 2, errors)):
        stream.flush()
        os.dup2(target, number)
