"""The `regard` command line: all commands.

Commands are thin wrappers over `regard.api`; heavy imports are inside their functions.
"""

from __future__ import annotations

import io
import sys

import typer

from regard.cli.catalog.ls import ls
from regard.cli.catalog.mask import mask
from regard.cli.data import corpus, tokenizer
from regard.cli.data.new import new
from regard.cli.exit_codes import run_command
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
from regard.cli.studies.plan import plan
from regard.cli.studies.report import report
from regard.cli.studies.runs import runs
from regard.cli.studies.worker import worker
from regard.cli.training.evaluate import evaluate
from regard.cli.training.train import train
from regard.cli.training.validate import validate
from regard.cli.trust.audit import audit
from regard.cli.trust.check import check
from regard.core.process.waiting_threads import limit_spinning

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
    plan,
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
app.command(hidden=True)(worker)
app.command("import")(import_model)
app.command("export")(export_model)
app.add_typer(corpus.app, name="corpus")
app.add_typer(tokenizer.app, name="tokenizer")


def main() -> None:
    """Run one command."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # it may encode less than is printed, as ASCII
        sys.stdout.reconfigure(errors="replace")
    limit_spinning()
    run_command(app)
