"""Exit codes of commands, and the sentence of each error.

0: done. 2: an error the user can fix. 130, 143: stopped by a signal. 70: a bug.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import NoReturn

from regard.core.errors import UserError

DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
PATH_ERRORS = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EIO,
}
"Errors about a path that the user can fix; others are bugs."


def run_command(command: Callable[[], object]) -> None:
    """Run it; of an error the sentence is printed, and SystemExit has its exit code."""
    try:
        command()
    except UserError as problem:
        exit_with(str(problem), code=2)
    except KeyboardInterrupt:
        exit_with("stopped.", code=130)
    except BrokenPipeError:
        # `regard … | head` closed the pipe: no reader is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except Exception as problem:  # never show a bare traceback
        message = disk_error(problem) if isinstance(problem, OSError) else memory_error(problem)
        if message:
            exit_with(message, code=2)
        exit_with(bug_report(problem), code=70)


def exit_with(message: str, *, code: int) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(code)


def disk_error(problem: OSError) -> str | None:
    """The message for a full disk or an unusable path; None for other errors."""
    target = f" for {problem.filename}" if problem.filename else ""
    if problem.errno in DISK_FULL:
        return (
            f"disk: no space left{target}. What was saved before is intact: "
            "free some space, then run the same command again (resume a training with --resume)."
        )
    if problem.errno in PATH_ERRORS and problem.filename:
        return (
            f"disk: {problem.filename} cannot be used ({problem.strerror}). "
            "Check the file and its permissions, or give another path."
        )
    return None


def memory_error(problem: Exception) -> str | None:
    """The message for out-of-memory errors, which torch words differently by device."""
    signs = ("can't allocate memory", "out of memory")
    if isinstance(problem, MemoryError) or any(sign in str(problem) for sign in signs):
        return (
            "memory: out of memory. Lower model.width, model.layers, model.context or "
            "train.batch_tokens, or raise train.accumulate; `regard validate` predicts peak memory."
        )
    return None


def bug_report(problem: Exception) -> str:
    """One sentence; the traceback goes to a file, or is shown with REGARD_TRACEBACK=1."""
    text = "".join(traceback.format_exception(problem))
    message = f"this is a bug in regard: {type(problem).__name__}: {problem}"
    if os.environ.get("REGARD_TRACEBACK") == "1":
        return f"{text}{message}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="regard-traceback-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
    except OSError:  # no space for the file either
        return f"{text}{message}"
    return f"{message}; the traceback is in {file.name}"
