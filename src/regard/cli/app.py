"""The `regard` command line: all commands, and the error messages of the process.

Commands are thin wrappers over `regard.api`; heavy imports are inside their functions.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import tempfile
import traceback
from typing import NoReturn

import typer

from regard.cli.catalog.ls import ls
from regard.cli.catalog.mask import mask
from regard.cli.data import corpus, tokenizer
from regard.cli.data.new import new
from regard.cli.lessons.exercise import exercise
from regard.cli.lessons.lesson import lesson
from regard.cli.models.ask import ask
from regard.cli.models.convert import export_model, import_model
from regard.cli.models.generate import generate
from regard.cli.models.inspect import inspect
from regard.cli.models.ledger import ledger
from regard.cli.models.predict import predict
from regard.cli.studies.compare import compare, sweep
from regard.cli.studies.errors import errors
from regard.cli.studies.judge import judge
from regard.cli.studies.report import report
from regard.cli.studies.runs import runs
from regard.cli.training.evaluate import evaluate
from regard.cli.training.train import train
from regard.cli.training.validate import validate
from regard.cli.trust.audit import audit
from regard.cli.trust.check import check
from regard.core.errors import UserError
from regard.core.process.waiting_threads import limit_spinning
from regard.core.untrusted import MAX_SHOWN, is_panic, shorten

app = typer.Typer(
    name="regard",
    help="A workbench for Transformers: experiments that cannot quietly fool you.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for command in (
    new,
    validate,
    train,
    compare,
    sweep,
    judge,
    evaluate,
    predict,
    errors,
    audit,
    generate,
    ask,
    inspect,
    ledger,
    report,
    runs,
    ls,
    mask,
    check,
    lesson,
    exercise,
):
    app.command()(command)
app.command("import")(import_model)
app.command("export")(export_model)
app.add_typer(corpus.app, name="corpus")
app.add_typer(tokenizer.app, name="tokenizer")

MAX_MESSAGE = 10_000
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


def main() -> None:
    """Run one command; exit code 2: an error the user can fix, 130: Ctrl-C, 70: a bug."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # it may encode less than is printed, as ASCII
        sys.stdout.reconfigure(errors="replace")
    limit_spinning()
    try:
        app()
    except UserError as problem:
        exit_with(str(problem), code=2)
    except KeyboardInterrupt:
        exit_with("stopped.", code=130)
    except BrokenPipeError:
        # `regard … | head` closed the pipe: no reader is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except BaseException as problem:  # never show a bare traceback
        if isinstance(problem, SystemExit | GeneratorExit):
            raise
        if is_panic(problem):
            exit_with(panic_sentence(problem), code=2)
        message = disk_error(problem) if isinstance(problem, OSError) else memory_error(problem)
        if message:
            exit_with(message, code=2)
        exit_with(bug_report(problem), code=70)


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
    return None


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
            "w", prefix="regard-traceback-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
    except OSError:  # no space for the file either
        return f"{text}{message}"
    return f"{message}; the traceback is in {file.name}"
