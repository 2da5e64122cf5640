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

import typer

from regard.cli.usage_errors import usage_error
from regard.core.errors import UserError
from regard.core.untrusted import MAX_SHOWN, is_panic, shorten
from regard.training.parallel.launch import launched_rank

MAX_MESSAGE = 10_000
CTRL_C = 130
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
    errno.ELOOP,
}
"Errors about a path that the user can fix; others are bugs."
LINKS_IN_A_CIRCLE = "Symlink loop"
"So begins what pathlib says of them, before Python 3.13."


def run_command(command: Callable[[], object]) -> None:
    """Run it, and exit with the code that it returns; of an error the sentence is printed, and
    SystemExit has its exit code."""
    try:
        code = command()
    except UserError as problem:
        exit_with(str(problem), code=2)
    except KeyboardInterrupt:
        exit_with("stopped.", code=CTRL_C)
    except typer.Abort:
        exit_with("stopped: there was no answer.", code=1)
    except BrokenPipeError:
        # `regard … | head` closed the pipe: no reader is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except BaseException as problem:  # never show a bare traceback
        if isinstance(problem, SystemExit | GeneratorExit):
            raise
        if is_panic(problem):
            exit_with(panic_sentence(problem), code=2)
        if usage := usage_error(problem):
            if launched_rank():  # of several processes with the same arguments one says it
                raise SystemExit(2) from None
            exit_with(usage, code=2)
        if message := _sentence(problem):
            exit_with(message, code=2)
        exit_with(bug_report(problem), code=70)
    if code == CTRL_C:  # caught by Typer
        exit_with("stopped.", code=CTRL_C)
    raise SystemExit(code if isinstance(code, int) else 0)


def _sentence(problem: BaseException) -> str | None:
    """Of an error that the machine causes and a person can fix."""
    if isinstance(problem, OSError) and problem.errno != errno.ENOMEM:
        return disk_error(problem)
    if isinstance(problem, UnicodeEncodeError):
        return path_encoding_error(problem)
    if isinstance(problem, RuntimeError) and str(problem).startswith(LINKS_IN_A_CIRCLE):
        return f"disk: links lead back to themselves ({problem}). Remove one, or give another path."
    return memory_error(problem)


def exit_with(message: str, *, code: int) -> NoReturn:
    if len(message) > MAX_MESSAGE:  # it may name a path of any length
        message = f"{message[: MAX_MESSAGE // 2]} … {message[-MAX_MESSAGE // 2 :]}"
    print(message, file=sys.stderr)
    raise SystemExit(code)


def disk_error(problem: OSError) -> str | None:
    """The message for a full disk or an unusable path; None for other errors."""
    name = str(problem.filename)
    name = name if len(name) <= MAX_SHOWN else shorten(name)
    target = f" for {name}" if problem.filename else ""
    if problem.errno in DISK_FULL:
        return (
            f"disk: no space left{target}. What was saved before is intact: "
            "free some space, then run the same command again (resume a training with --resume)."
        )
    if problem.errno in PATH_ERRORS and problem.filename:
        return (
            f"disk: {name} cannot be used ({problem.strerror}). "
            "Check the file and its permissions, or give another path."
        )
    cache = os.environ.get("REGARD_CACHE")
    if problem.errno == errno.ENOENT and cache and str(problem.filename).startswith(cache):
        return f"disk: the cache {name} cannot be made. Set REGARD_CACHE to another folder."
    return None


def path_encoding_error(problem: UnicodeEncodeError) -> str | None:
    """The message for a path that cannot be named where `LC_ALL=C` and nothing says UTF-8; None
    where paths are in UTF-8, as they are nearly everywhere."""
    if problem.encoding != sys.getfilesystemencoding() or problem.encoding == "utf-8":
        return None
    return (
        f"paths are in {problem.encoding} here, which cannot name {shorten(problem.object)}. "
        "Set PYTHONUTF8=1 or LC_ALL=C.UTF-8."
    )


def memory_error(problem: BaseException) -> str | None:
    """The message for out-of-memory errors, which torch words differently by device."""
    signs = (
        *("can't allocate memory", "cannot allocate memory", "out of memory"),
        *("can't start new thread", "failed to map segment"),
    )
    if isinstance(problem, MemoryError) or any(sign in str(problem).lower() for sign in signs):
        return (
            "memory: out of memory. Lower model.width, model.layers, model.context or "
            "train.batch_tokens, or raise train.accumulate; `regard validate` predicts peak memory."
        )
    return None


def panic_sentence(problem: BaseException) -> str:
    """A library in Rust gave up on its input; what it was given came from a file."""
    what = str(problem).partition("\n")[0]
    return f"a library gave up on its input ({what}). Check the tokenizer and data that you gave."


def bug_report(problem: BaseException) -> str:
    """One sentence; the traceback goes to a file, or is shown with REGARD_TRACEBACK=1."""
    text = "".join(traceback.format_exception(problem))
    message = f"this is a bug in regard: {type(problem).__name__}: {problem}"
    if os.environ.get("REGARD_TRACEBACK") == "1":
        return f"{text}{message}"
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            prefix="regard-traceback-",
            suffix=".txt",
            delete=False,
            encoding="utf-8",
            errors="backslashreplace",
        ) as file:
            file.write(text)
    except OSError:  # no space for the file either
        return f"{text}{message}"
    return f"{message}; the traceback is in {file.name}"
