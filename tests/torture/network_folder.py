"""One of several machines that share a folder over a network, as NFS shows it to them.

Each process is a machine with a name of its own. Locks are refused, granted to whoever asks, or
real. What another machine made, changed or removed is seen late: the answers of `stat` and the
lists of folders are kept for a while, longer each time they were still true. What a machine did
itself it sees at once, opening a file asks the server, and creating one that must not exist is
decided by the server, as the protocol promises.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import os
import platform
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import regard.models.tensor_files
from regard.runs.locking import lock_holder

Locks = Literal["refused", "granted to all", "real"]
BEAT_SECONDS = 0.3
"Instead of 10: a trial takes seconds. Delays are in proportion to NFS's 3 to 60 s."
FIRST_DELAY, LONGEST_DELAY = 0.3 * BEAT_SECONDS, 2 * BEAT_SECONDS


class Late:
    """What a machine believes of files that others may have changed since."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._own: set[str] = set()
        "Paths that this machine has written: it knows them."
        self._kept: dict[tuple[str, str], tuple[float, float, Any]] = {}
        "By function and path: the end of belief, its length, and the answer."

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of a path that reads, as it answers here."""

        def asked(given: Any = ".", *rest: Any, **named: Any) -> Any:
            path = self._path(given)
            if path is None or rest or set(named) - {"follow_symlinks"} or path in self._own:
                return function(given, *rest, **named)
            key, now = (function.__name__ + str(named), path), time.monotonic()
            until, length, answer = self._kept.get(key, (0.0, FIRST_DELAY / 2, None))
            if now >= until:
                fresh = _answer(function, given, **named)
                unchanged = answer is not None and answer[1:] == fresh[1:]
                length = min(2 * length, LONGEST_DELAY) if unchanged else FIRST_DELAY
                answer = fresh
                self._kept[key] = now + length, length, answer
            value, _, problem = answer
            if problem:
                raise OSError(problem, os.strerror(problem), given)
            return value

        return asked

    def written(self, given: Any) -> None:
        """By this machine: it sees the new state, and so the list of the folder."""
        if (path := self._path(given)) is not None:
            self._own.add(path)
            for key in [one for one in self._kept if one[1] in (path, str(Path(path).parent))]:
                del self._kept[key]

    def _path(self, given: Any) -> str | None:
        if not isinstance(given, str | os.PathLike):
            return None
        path = os.path.abspath(os.fspath(given))  # noqa: PTH100 — links stay links
        return path if str(path).startswith(self._root) else None


def _answer(function: Callable[..., Any], given: Any, **named: Any) -> tuple[Any, Any, int]:
    try:
        value = function(given, **named)
    except FileNotFoundError as problem:
        return None, None, problem.errno or errno.ENOENT
    if isinstance(value, list):
        return value, sorted(value), 0
    return value, (value.st_ino, value.st_mtime_ns, value.st_size), 0


@contextmanager
def machine(name: str, root: Path, *, locks: Locks, late: bool) -> Iterator[None]:
    """This process is the machine `name`; `root` is the folder that it shares."""
    seen = Late(root)

    def writing(function: Callable[..., Any], *, both: bool = False) -> Callable[..., Any]:
        def call(given: Any, *rest: Any, **named: Any) -> Any:
            result = function(given, *rest, **named)
            if named.get("dir_fd") is None:
                seen.written(given)
                if both and rest:
                    seen.written(rest[0])
            return result

        return call

    def opening(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(given: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            result = function(given, mode, *rest, **named)
            if {*mode} & {*"wax+"}:
                seen.written(given)
            return result

        return call

    def os_open(given: Any, flags: int, *rest: Any, **named: Any) -> int:
        result = real_open(given, flags, *rest, **named)
        if flags & (os.O_WRONLY | os.O_RDWR) and named.get("dir_fd") is None:
            seen.written(given)
        return result

    def flock(*_: Any) -> None:
        if locks == "refused":
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    def save(tensors: Any, file: Any, *rest: Any, **named: Any) -> None:
        real_save(tensors, file, *rest, **named)
        seen.written(file)

    real_open, real_save = os.open, regard.models.tensor_files.save_file  # type: ignore[attr-defined]
    with ExitStack() as stack:

        def patch(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(owner, name, value))

        patch(platform, "node", lambda: name)
        patch(socket, "gethostname", lambda: name)
        patch(lock_holder, "BEAT_SECONDS", BEAT_SECONDS)
        if locks != "real":
            patch(fcntl, "flock", flock)
        if late:
            for reader in ("stat", "lstat", "listdir"):
                patch(os, reader, seen.wrap(getattr(os, reader)))
            for writer in ("mkdir", "rmdir", "unlink", "remove", "utime", "chmod"):
                patch(os, writer, writing(getattr(os, writer)))
            for writer in ("rename", "replace", "link"):
                patch(os, writer, writing(getattr(os, writer), both=True))
            patch(os, "open", os_open)
            for owner in (builtins, io):
                patch(owner, "open", opening(owner.open))
            patch(regard.models.tensor_files, "save_file", save)
        yield
