"""One writer per run folder: the process that trains into it holds a file lock beside it.

The lock file is beside the folder because a run is audited before its folder exists. The system
releases the lock when its process ends, however it ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout, UnixFileLock

from regard.core.errors import UserError


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`; an error if another process holds it."""
    creates_parent = not folder.parent.exists()
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = _acquire(_lock_file(folder))
    except Timeout:
        raise UserError(
            f"another process is training into {folder}",
            topic="run",
            hint="Wait for it or stop it, or choose another --out.",
        ) from None
    try:
        yield
    finally:
        if isinstance(lock, UnixFileLock):  # the other locks remove their file themselves
            with suppress(OSError):
                # While the lock is held: a process that opened the file before sees it is gone.
                _lock_file(folder).unlink()
        lock.release()
        if creates_parent:
            with suppress(OSError):  # not empty
                folder.parent.rmdir()


def is_locked(folder: Path) -> bool:
    """Whether a process is training into `folder` now."""
    if not folder.parent.is_dir():
        return False
    try:
        with lock_run(folder):
            return False
    except UserError:
        return True


def _lock_file(folder: Path) -> Path:
    # abspath, not resolve: links in the path stay links.
    return Path(os.path.abspath(folder.parent)) / f".{folder.name}.lock"  # noqa: PTH100


def _acquire(file: Path) -> BaseFileLock:
    """A system lock if the file system has locks; else the existence of a file is the lock."""
    try:
        return _acquire_now(FileLock(file))
    except Timeout:
        raise
    except OSError:  # no locks here: the file of the attempt must not count as one
        file.unlink(missing_ok=True)
        return _acquire_now(SoftFileLock(file.with_suffix(".soft-lock")))


def _acquire_now(lock: BaseFileLock) -> BaseFileLock:
    lock.acquire(timeout=0)
    return lock
