"""The command tree: every command in its group, `--version` and `--quiet`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from regard.cli import version
from regard.cli.catalog.ls import ls
from regard.cli.catalog.mask import mask
from regard.cli.catalog.recipes import recipes
from regard.cli.catalog.schema import schema
from regard.cli.console import set_quiet
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
from regard.cli.studies.plan import plan
from regard.cli.studies.report import report
from regard.cli.studies.runs import runs
from regard.cli.studies.worker import worker
from regard.cli.training.evaluate import evaluate
from regard.cli.training.train import train
from regard.cli.training.validate import validate
from regard.cli.trust.audit import audit
from regard.cli.trust.check import check
from regard.cli.web.serve import serve
from regard.core.errors import UserError
from regard.training.parallel.launch import Launch

GROUPS: dict[str, dict[str, Any]] = {
    "Train": {"new": new, "validate": validate, "train": train, "evaluate": evaluate},
    "Use a model": {
        "predict": predict,
        "generate": generate,
        "ask": ask,
        "import": import_model,
        "export": export_model,
    },
    "Compare": {
        "compare": compare,
        "sweep": sweep,
        "plan": plan,
        "judge": judge,
        "errors": errors,
        "runs": runs,
        "report": report,
        "serve": serve,
    },
    "Look inside": {
        "audit": audit,
        "check": check,
        "inspect": inspect,
        "ledger": ledger,
        "mask": mask,
    },
    "Data": {"corpus": corpus.app, "tokenizer": tokenizer.app},
    "Learn and look up": {
        "lesson": lesson,
        "exercise": exercise,
        "recipes": recipes,
        "ls": ls,
        "schema": schema,
    },
}
"Functions, and apps with commands of their own."


class GroupedCommands(TyperGroup):
    """Lists commands by group, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, commands in GROUPS.items():
            rows = [
                (name, command.get_short_help_str(limit=1000))
                for name in commands
                if (command := self.get_command(ctx, name)) is not None
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)


app = typer.Typer(
    name="regard",
    cls=GroupedCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for commands in GROUPS.values():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


app.command(hidden=True)(worker)


def _print_version(wanted: bool) -> None:
    if wanted:
        version.print_version()
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the versions of regard, Python and torch, the kernels and the device.",
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", help="Print results and errors alone; may stand after any command, too."
        ),
    ] = False,
) -> None:
    """A workbench for Transformers: experiments that cannot quietly fool you."""
    set_quiet(quiet)
    if context.invoked_subcommand != "train":
        refuse_ranks(str(context.invoked_subcommand))


def refuse_ranks(command: str) -> None:
    """Several processes would do the same work, and write the same files."""
    launch = Launch.of_environment()
    if launch is None:
        return
    if launch.rank:
        raise SystemExit(2)  # rank 0 says it
    raise UserError(
        f"{launch.size} processes were started to run regard {command}, and only regard train "
        "divides its work",
        topic="ranks",
        hint=f"Run regard {command} without torchrun.",
    )
