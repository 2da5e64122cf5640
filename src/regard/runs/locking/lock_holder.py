"""Who holds the lock of a run folder: written beside the lock, read by whoever finds it taken.

    runs/.NAME.writer.json   {"schema": 1, "purpose": "training", "host": "ada", "pid": 4711, …}

The holder touches the file every `BEAT_SECONDS`. So another machine, which sees no process of this
one, can tell a holder that works from one that is gone, by the clock of the file server alone. The
file is never written over: of two machines whose locks are worth nothing, one creates it.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from regard.core.files import write_json
from regard.core.process.thread_memory import check_thread_memory

Purpose = Literal["training", "evaluation", "report", "deletion"]

SCHEMA = 1
BEAT_SECONDS = 10.0
"Time between two touches of the file."
MISSED_BEATS = 2.5
"A holder on another machine that is silent for longer is gone."


@dataclass(frozen=True)
class LockHolder:
    """The process that holds a lock."""

    purpose: str
    "What it does with the folder."
    host: str
    pid: int
    since: str
    "ISO 8601, UTC, to the second."

    @classmethod
    def this_process(cls, purpose: Purpose) -> Self:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(purpose, platform.node(), os.getpid(), now)

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """None if there is no such file, or it is not one of ours."""
        try:
            table = json.loads(file.read_bytes())
            if table.pop("schema") != SCHEMA:
                return None
            return cls(str(table["purpose"]), str(table["host"]), int(table["pid"]), table["since"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is a process of another machine."""
        return self.host != platform.node()

    @property
    def is_alive_here(self) -> bool:
        """Whether it is a process of this machine that has not ended, as far as this system says
        without disturbing it."""
        if self.is_elsewhere:
            return False
        if os.name == "posix":  # on Windows signal 0 is Ctrl-C
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return False
            except OSError:  # another user's
                return True
        return True

    def __str__(self) -> str:
        since = self.since.replace("T", " ").removesuffix("+00:00")
        return f"{self.purpose} on {self.host}, process {self.pid}, since {since} UTC"


class AnnouncedBeforeError(Exception):
    """Another machine, to which the same lock was granted, has announced itself first."""

    def __init__(self, holder: LockHolder | None) -> None:
        super().__init__(str(holder))
        self.holder = holder


@contextmanager
def announced(holder: LockHolder, file: Path, *, instead_of: LockHolder | None) -> Iterator[None]:
    """Keep `file` written and fresh, in place of a holder that is gone; without write permission
    nothing is announced."""
    check_thread_memory()
    stop = threading.Event()
    with suppress(OSError):
        _remove_former(file, instead_of)
        _create(file, holder)
    beating = threading.Thread(target=_beat, args=(file, holder, stop), daemon=True)
    beating.start()
    try:
        yield
    finally:
        stop.set()
        beating.join()
        with suppress(OSError):
            if LockHolder.read(file) == holder:
                file.unlink()


def _remove_former(file: Path, former: LockHolder | None) -> None:
    """Out of the way first, then looked at: another machine may have replaced it meanwhile."""
    aside = _beside(file)
    try:
        file.rename(aside)
    except FileNotFoundError:
        return
    found = LockHolder.read(aside)
    if found is not None and found != former:
        with suppress(FileExistsError):
            os.link(aside, file)
        aside.unlink()
        raise AnnouncedBeforeError(found)
    aside.unlink()  # the former one, or no announcement at all


def _create(file: Path, holder: LockHolder) -> None:
    """Whole or not at all, and only if there is none."""
    whole = _beside(file)
    write_json(whole, {"schema": SCHEMA, **asdict(holder)})
    try:
        os.link(whole, file)
    except FileExistsError:
        raise AnnouncedBeforeError(LockHolder.read(file)) from None
    except OSError:  # no hard links here
        whole.replace(file)
    finally:
        whole.unlink(missing_ok=True)


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.{secrets.token_hex(8)}")


def is_beating(file: Path) -> bool:
    """Whether its holder touches the file; watches for as long as a holder may be silent."""
    before = _touched(file)
    deadline = time.monotonic() + MISSED_BEATS * BEAT_SECONDS
    while time.monotonic() < deadline:
        time.sleep(BEAT_SECONDS / 10)
        if (now := _touched(file)) != before:
            return now is not None  # removed: the holder has finished
    return False


def _beat(file: Path, holder: LockHolder, stop: threading.Event) -> None:
    while not stop.wait(BEAT_SECONDS):
        with suppress(OSError):
            if LockHolder.read(file) == holder:  # else another machine has taken over
                os.utime(file)


def _touched(file: Path) -> int | None:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return None
