"""One writer a run folder: the process that trains into it holds a lock beside it.

The lock lies beside the folder because a run is audited before its folder exists. It ends with its
process, however that ends.
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
    """Keep every other process from writing into `folder`; refused where one does already."""
    is_first = not folder.parent.exists()
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = _acquired(_lock_file(folder))
    except Timeout:
        raise UserError(
            f"another process is training into {folder}",
            topic="run",
            hint="Wait for it or stop it, or choose another --out.",
        ) from None
    try:
        yield
    finally:
        if isinstance(lock, UnixFileLock):  # others remove their file themselves
            with suppress(OSError):
                # While the lock is held: whoever opened the file before sees that it is gone.
                _lock_file(folder).unlink()
        lock.release()
        if is_first:
            with suppress(OSError):  # runs are in it
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
    return Path(os.path.abspath(folder.parent)) / f".{folder.name}.lock"  # noqa: PTH100 — no links


def _acquired(file: Path) -> BaseFileLock:
    """By the system where its file system has locks, by the existence of the file elsewhere."""
    try:
        return _at_once(FileLock(file))
    except Timeout:
        raise
    except OSError:  # no locks here: what the attempt left must not pass for one
        file.unlink(missing_ok=True)
        return _at_once(SoftFileLock(file.with_suffix(".soft-lock")))


def _at_once(lock: BaseFileLock) -> BaseFileLock:
    lock.acquire(timeout=0)
    return lock
