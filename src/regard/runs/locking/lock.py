"""One writer per run folder: whoever trains, evaluates, reports or deletes holds its lock.

    runs/.NAME.lock          a lock of the system, which releases it when the process ends
    runs/.NAME.soft-lock     where the file system has no locks: the file's existence is the lock
    runs/.NAME.writer.json   who holds it (`lock_holder.py`)

The files are beside the folder because a run is audited before its folder exists. The lock of a
dead process is taken over: on the same machine at once, on another one when its holder is silent.
A network folder may grant a lock to two machines; the holder of the other one is watched there too.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout, UnixFileLock

from regard.core.errors import UserError
from regard.runs.locking.lock_holder import (
    BEAT_SECONDS,
    MISSED_BEATS,
    AnnouncedBeforeError,
    LockHolder,
    Purpose,
    announced,
    is_beating,
)

LOCK, SOFT_LOCK, WRITER = "lock", "soft-lock", "writer.json"
SOFT_TIMEOUT_SECONDS = 0.1
"Two attempts: the first removes the file of a dead process, the second creates its own."
NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS}


class RunLockedError(UserError):
    """Another process holds the lock of a run folder."""

    def __init__(self, folder: Path, holder: LockHolder | None, *, purpose: Purpose) -> None:
        who = f": {holder}" if holder is not None else ""
        super().__init__(
            f"another process is writing to {folder}{who}", topic="run", hint=_hint(purpose)
        )
        self.holder = holder


@contextmanager
def lock_run(folder: Path, purpose: Purpose) -> Iterator[None]:
    """Hold the lock of `folder`; an error that names the holder if another process has it."""
    writer = _beside(folder, WRITER)
    with _hold(folder, purpose=purpose):
        holder = LockHolder.read(writer)
        if holder is not None and holder.is_elsewhere and is_beating(writer):
            raise RunLockedError(folder, holder, purpose=purpose)
        try:
            with announced(LockHolder.this_process(purpose), writer, instead_of=holder):
                yield
        except AnnouncedBeforeError as other:
            raise RunLockedError(folder, other.holder, purpose=purpose) from None


@contextmanager
def lock_run_for_evaluation(folder: Path) -> Iterator[None]:
    """Like `lock_run`; beside another evaluation, or where nothing can be written, without lock."""
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_run(folder, "evaluation"))
        except RunLockedError as problem:
            if problem.holder is None or problem.holder.purpose != "evaluation":
                raise
        except OSError as problem:
            if problem.errno not in NOT_WRITABLE:
                raise
        yield


def is_locked(folder: Path) -> bool:
    """Whether another process is writing to `folder` now."""
    if not folder.parent.is_dir():
        return False
    try:
        with _hold(folder, purpose="training"):
            return False
    except RunLockedError:
        return True


def seems_written(folder: Path) -> bool:
    """Whether another process announced lately that it writes to `folder`: for those who only look,
    for nothing is locked or written. By this machine's clock."""
    with suppress(OSError):
        silent = time.time() - _beside(folder, WRITER).stat().st_mtime
        return silent < MISSED_BEATS * BEAT_SECONDS
    return False


def find_writer(folder: Path) -> LockHolder | None:
    """The process of this machine that announced lately that it writes to `folder`, and lives:
    for those who only look, as `seems_written`."""
    holder = LockHolder.read(_beside(folder, WRITER)) if seems_written(folder) else None
    return holder if holder is not None and holder.is_alive_here else None


@contextmanager
def _hold(folder: Path, *, purpose: Purpose) -> Iterator[None]:
    creates_parent = not folder.parent.exists()
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = _acquire(folder)
    except Timeout:
        raise RunLockedError(
            folder, LockHolder.read(_beside(folder, WRITER)), purpose=purpose
        ) from None
    try:
        yield
    finally:
        if isinstance(lock, UnixFileLock):  # the other locks remove their file themselves
            with suppress(OSError):
                # While the lock is held: a process that opened the file before sees it is gone.
                _beside(folder, LOCK).unlink()
        lock.release()
        if creates_parent:
            with suppress(OSError):  # not empty
                folder.parent.rmdir()


def _beside(folder: Path, ending: str) -> Path:
    # abspath, not resolve: links in the path stay links. The folder may be given as `.`.
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100
    return absolute.with_name(f".{absolute.name}.{ending}")


def _acquire(folder: Path) -> BaseFileLock:
    """A system lock if the file system has locks; else the existence of a file is the lock."""
    file, soft_file = _beside(folder, LOCK), _beside(folder, SOFT_LOCK)
    try:
        return _acquired(FileLock(file, fallback_to_soft=False), timeout=0)
    except Timeout:
        raise
    except OSError as problem:
        if problem.errno in NOT_WRITABLE:
            raise
        file.unlink(missing_ok=True)  # of the attempt: it must not count as a lock
    try:
        return _acquired(SoftFileLock(soft_file), timeout=SOFT_TIMEOUT_SECONDS)
    except Timeout:
        writer = _beside(folder, WRITER)
        holder = LockHolder.read(writer)
        is_here = holder is not None and not holder.is_elsewhere
        if is_here and _is_filled(soft_file):  # filelock has found its process
            raise
        # Without a holder it was killed before it could announce itself, or does so now.
        if is_beating(soft_file if holder is None else writer):
            raise
        if LockHolder.read(writer) == holder:  # nobody else took over meanwhile
            soft_file.unlink(missing_ok=True)
        return _acquired(SoftFileLock(soft_file), timeout=SOFT_TIMEOUT_SECONDS)


def _is_filled(soft_file: Path) -> bool:
    """Whether it says whose it is: a process killed while it wrote the file has not."""
    with suppress(OSError):
        return soft_file.stat().st_size > 0
    return False


def _acquired(lock: BaseFileLock, *, timeout: float) -> BaseFileLock:
    lock.acquire(timeout=timeout)
    return lock


def _hint(purpose: Purpose) -> str:
    if purpose == "training":
        return "Wait for it or stop it, or choose another --out."
    if purpose == "report":
        return "Wait for it, or write the page elsewhere: --out FILE."
    return "Wait for it or stop it."
