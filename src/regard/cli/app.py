"""The `regard` command: every verb, and what a person sees when something goes wrong.

Verbs are thin over `regard.api`; each imports what is heavy inside its function.
"""

from __future__ import annotations

import errno
import os
import sys

import typer

from regard.cli import corpus, tokenizer
from regard.cli.evaluate import evaluate
from regard.cli.generate import generate
from regard.cli.ls import ls
from regard.cli.new import new
from regard.cli.report import report
from regard.cli.train import train, validate
from regard.errors import UserError

app = typer.Typer(
    name="regard",
    help="A workbench for Transformers: an experiment that cannot quietly fool you.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for verb in (new, validate, train, evaluate, generate, report, ls):
    app.command()(verb)
app.add_typer(corpus.app, name="corpus")
app.add_typer(tokenizer.app, name="tokenizer")


def main() -> None:
    """Run one command; exit 2 on what the user can mend, 130 on Ctrl-C."""
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
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
        place = f" for {problem.filename}" if problem.filename else ""
        leave(
            f"disk: no room left{place}. What was saved before is whole: "
            "free some room, then run the same command again (a training goes on with --resume).",
            code=2,
        )


def leave(sentence: str, *, code: int) -> None:
    print(sentence, file=sys.stderr)
    raise SystemExit(code)
