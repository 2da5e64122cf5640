"""Every point at which a command changes the disk: a fault can be put before or after each."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import regard.models.tensor_files
from regard.training.events import EventLog

SYSTEM_CALLS = ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "open")
"Of the module os, which pathlib, shutil and tempfile call too; `open` only to write."
WRITING = os.O_WRONLY | os.O_RDWR


@contextmanager
def at_every_write(fault: Callable[[int, bool], None]) -> Iterator[list[int]]:
    """Calls `fault(number, done)` before and after each write; yields a list with their count."""
    count = [0]

    def wrapped(function: Callable[..., Any], *, writes: Callable[..., bool]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if not writes(*arguments):
                return function(*arguments, **named)
            count[0] += 1
            number = count[0]
            fault(number, False)
            result = function(*arguments, **named)
            fault(number, True)
            return result

        return call

    def always(*_: Any) -> bool:
        return True

    def to_write(_: Any, flags: int = 0, *rest: Any) -> bool:
        return bool(flags & WRITING)

    with ExitStack() as stack:
        for name in SYSTEM_CALLS:
            writes = to_write if name == "open" else always
            changed = wrapped(getattr(os, name), writes=writes)
            stack.enter_context(mock.patch.object(os, name, changed))
            if name == "open":
                stack.enter_context(mock.patch.object(tempfile._os, "open", changed))  # type: ignore[attr-defined]
        # Weights and events are written by other means than os.
        for owner, name in (
            (regard.models.tensor_files, "save_file"),
            (EventLog, "__call__"),
        ):
            changed = wrapped(getattr(owner, name), writes=always)
            stack.enter_context(mock.patch.object(owner, name, changed))
        yield count


def count_writes(action: Callable[[], object]) -> int:
    """How many points an action has."""
    with at_every_write(lambda number, done: None) as count:
        action()
    return count[0]
