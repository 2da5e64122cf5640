"""The harness: a target's trials, each from a seed, in a forked child with torch loaded.

A trial is one attempt to make regard lie, crash, hang or lose something. It returns a word for what
happened (`refused`, `harmless`, `same bits`) or raises `Failure`. Trial n of a target always draws
from the seed n, so that any failure is repeated by its number, and counts of several days add up.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CAN_FORK = hasattr(os, "fork") and sys.platform != "darwin"
"macOS forks, but not with its frameworks loaded."
FAILURES = ("believed", "crashed", "hung", "lost")


class Failure(Exception):  # noqa: N818 — what a trial found, not an error of the harness
    """`believed`: a damaged file was shown as good. `crashed`: a traceback, exit code 70, or the
    process died. `hung`: no end in time. `lost`: other bits, or less, than without the fault."""

    def __init__(self, kind: str, detail: str) -> None:
        assert kind in FAILURES
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


@dataclass(frozen=True)
class Target:
    """One way of doing harm."""

    name: str
    what: str
    "For the table of docs/reliability.md."
    full: int
    "The full count of trials."
    trial: Callable[[Any, random.Random, Path], str]
    "(what `set_up` made, randomness of the trial, an empty folder) → a word."
    set_up: Callable[[Path], Any] = lambda home: None
    "Once, in the parent: what all trials read. They must not change it."
    seconds: float = 60.0
    "A trial that takes longer hangs."
    batch: int = 1
    "Trials of one forked child; cheap ones share it."


@dataclass
class Session:
    """What a number of trials of one target came to."""

    target: str
    first: int
    last: int
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def run_target(
    target: Target, trials: Iterable[int], home: Path, *, until: float | None = None
) -> Session:
    """Run these trials; `until` (monotonic seconds) ends the session early, between batches."""
    numbers = list(trials)
    session = Session(target.name, numbers[0], numbers[0])
    begun = time.monotonic()
    home.mkdir(parents=True, exist_ok=True)
    context = target.set_up(home)
    try:
        while numbers and (until is None or time.monotonic() < until):
            batch = numbers[: target.batch]
            for number, word, detail in _results(target, context, batch, home / "trial"):
                session.outcomes[word] += 1
                session.last = number
                numbers.remove(number)
                if word in FAILURES:
                    session.failures.append(f"{target.name} {number}: {word}: {detail}")
                    print(f"  {session.failures[-1]}", flush=True)
    except KeyboardInterrupt:
        print("  stopped", flush=True)  # what was done counts
    session.seconds = time.monotonic() - begun
    return session


def _results(
    target: Target, context: Any, numbers: list[int], folder: Path
) -> Iterator[tuple[int, str, str]]:
    if not CAN_FORK:
        for number in numbers:
            yield number, *_one(target, context, number, folder)
        return
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _in_child(target, context, numbers, folder, writer)
    os.close(writer)
    try:
        yield from _read_results(target, numbers, child, reader)
    finally:
        _end_group(child)  # also when this process is told to stop


def _in_child(target: Target, context: Any, numbers: list[int], folder: Path, writer: int) -> None:
    os.setpgid(0, 0)  # so that whatever it starts ends with it
    try:
        for number in numbers:
            word, detail = _one(target, context, number, folder)
            os.write(writer, json.dumps([number, word, detail[:2000]]).encode() + b"\n")
    finally:
        os._exit(0)


def _read_results(
    target: Target, numbers: list[int], child: int, reader: int
) -> Iterator[tuple[int, str, str]]:
    """The child's results; a child that dies or hangs fails the trial that it was at."""
    import select

    pending, buffer = list(numbers), b""
    hung = False
    while pending:
        ready, _, _ = select.select([reader], [], [], target.seconds)
        if not ready:
            hung = True
            break
        block = os.read(reader, 1 << 16)
        if not block:
            break
        *lines, buffer = (buffer + block).split(b"\n")
        for line in lines:
            number, word, detail = json.loads(line)
            pending.remove(number)
            yield number, word, detail
    _end_group(child)
    _, status = os.waitpid(child, 0)
    os.close(reader)
    if pending:  # the next child goes on after this one
        ended = f"the process ended with {os.waitstatus_to_exitcode(status)}"
        detail = f"more than {target.seconds:g} s" if hung else ended
        yield pending[0], "hung" if hung else "crashed", detail


def _end_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _one(target: Target, context: Any, number: int, folder: Path) -> tuple[str, str]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        word = target.trial(context, random.Random(f"{target.name} {number}"), folder)
        assert word not in FAILURES, word
    except Failure as failure:
        return failure.kind, failure.detail
    except BaseException as problem:
        where = traceback.extract_tb(problem.__traceback__)[-1]
        return (
            "crashed",
            f"{type(problem).__name__}: {str(problem)[:500]} ({Path(where.filename).name}, line "
            f"{where.lineno})",
        )
    return word, ""
