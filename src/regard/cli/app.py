"""The `regard` command: every verb, and what a person sees when something goes wrong.

Verbs are thin over `regard.api`; each imports what is heavy inside its function.
"""

from __future__ import annotations

import errno
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
from regard.cli.models.export_model import export_model
from regard.cli.models.generate import generate
from regard.cli.models.import_model import import_model
from regard.cli.models.inspect import inspect
from regard.cli.models.ledger import ledger
from regard.cli.models.predict import predict
from regard.cli.studies.compare import compare, sweep
from regard.cli.studies.errors import errors
from regard.cli.studies.report import report
from regard.cli.studies.runs import runs
from regard.cli.training.evaluate import evaluate
from regard.cli.training.train import train
from regard.cli.training.validate import validate
from regard.cli.trust.audit import audit
from regard.cli.trust.check import check
from regard.core.errors import UserError

app = typer.Typer(
    name="regard",
    help="A workbench for Transformers: an experiment that cannot quietly fool you.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for verb in (
    new,
    validate,
    train,
    compare,
    sweep,
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
    app.command()(verb)
app.command("import")(import_model)
app.command("export")(export_model)
app.add_typer(corpus.app, name="corpus")
app.add_typer(tokenizer.app, name="tokenizer")

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
REFUSED = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EIO,
}
"Refusals of the system that follow from where things stand, not from what regard does."


def main() -> None:
    """Run one command; exit 2 on what the user can mend, 130 on Ctrl-C, 70 on a bug of ours."""
    try:
        app()
    except UserError as problem:
        leave(str(problem), code=2)
    except KeyboardInterrupt:
        leave("stopped.", code=130)
    except BrokenPipeError:
        # `regard … | head` closed the pipe: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except Exception as problem:  # the last resort: whatever it is, a person gets one sentence
        if sentence := system_says(problem) if isinstance(problem, OSError) else too_big(problem):
            leave(sentence, code=2)
        leave(own_up(problem), code=70)


def leave(sentence: str, *, code: int) -> NoReturn:
    print(sentence, file=sys.stderr)
    raise SystemExit(code)


def system_says(problem: OSError) -> str | None:
    """What the system refused, where the person can mend it; None where it must be our mistake."""
    place = f" for {problem.filename}" if problem.filename else ""
    if problem.errno in NO_ROOM:
        return (
            f"disk: no room left{place}. What was saved before is whole: "
            "free some room, then run the same command again (a training goes on with --resume)."
        )
    if problem.errno in REFUSED and problem.filename:
        return (
            f"disk: {problem.filename} cannot be used ({problem.strerror}). "
            "Change what stands there or its permissions, or give another place."
        )
    return None


def too_big(problem: Exception) -> str | None:
    """What to do where memory ran out; torch tells of it in several ways, by device."""
    signs = ("can't allocate memory", "out of memory")
    if isinstance(problem, MemoryError) or any(sign in str(problem) for sign in signs):
        return (
            "memory: this does not fit. Lower model.width, model.layers, model.context or "
            "train.batch_tokens, or raise train.accumulate; `regard validate` predicts the need."
        )
    return None


def own_up(problem: Exception) -> str:
    """One sentence for a bug of ours; the traceback goes to a file, or is shown when asked for."""
    text = "".join(traceback.format_exception(problem))
    what = f"this is a bug in regard: {type(problem).__name__}: {problem}"
    if os.environ.get("REGARD_TRACEBACK") == "1":
        return f"{text}{what}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="regard-traceback-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
    except OSError:  # not even there is room: better long than lost
        return f"{text}{what}"
    return f"{what}; the traceback is in {file.name}"
