"""`regard new`: a recipe and a first study for the user's own data."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from regard.cli.console import console

if TYPE_CHECKING:
    from regard.data.readers.records import Unit
    from regard.data.recognition.reading import Reading
    from regard.runs.proposals.overrides import Overrides
    from regard.runs.proposals.recognise import SourceContents

MAX_OFFERED = 5
"Readings that a question offers."
RECIPES = (".toml", ".yaml", ".yml", ".ini")
"Files of settings, which are no data."
WORTH_NAMING = 3.0
"How much less likely another reading may be and is still named."


def new(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="A file, train, dev and test files, a folder, a pattern, or a built-in corpus.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Recipe file; default: NAME.toml.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run.")] = None,
    task: Annotated[
        str | None, typer.Option(help="Task, as in regard ls task, or language-model.")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="Column of the text; twice for two texts.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Column to predict: a label, number, answer, translation or summary."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column whose rows stay in one split, such as an author.")
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first row names the columns."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Document unit of plain text: line, paragraph or file.")
    ] = None,
) -> None:
    """Write a commented recipe and a first study for your data. Asks only what it cannot see."""
    import tomllib

    from regard.api.settings_schema import write_schema
    from regard.core.errors import UserError
    from regard.core.files import write_text
    from regard.runs.proposals.overrides import Overrides
    from regard.runs.proposals.proposal import propose
    from regard.runs.proposals.recognise import recognise
    from regard.runs.recipe import Recipe, check_run_name

    overrides = Overrides(task, tuple(text or ()), label, group, _check_unit(unit), header)
    run_name = name or _name_from(sources[0])
    check_run_name(run_name, option="--name")
    for source in sources:
        if source.endswith(RECIPES):
            raise UserError(
                f"{source} is no data",
                topic="new",
                hint="A recipe is trained: regard train RECIPE. Give the file of texts or rows.",
            )
    target = out or Path(f"{run_name}.toml")
    if target.suffix != ".toml":
        raise UserError(
            f"--out {target}: a recipe is a file that ends in .toml",
            topic="new",
            hint=f"Write --out {target / run_name}.toml.",
        )
    study = target.with_name(f"{target.stem}-study.toml")
    for file in (target, study):
        if file.exists():
            raise UserError(
                f"{file} exists already", topic="new", hint="Give another name with --out."
            )
    found = recognise(sources, overrides)
    reading = _choose(found)
    proposal = propose(found, reading, overrides, name=run_name, recipe_file=target)
    Recipe.from_table(tomllib.loads(proposal.recipe))  # validate it before writing
    target.parent.mkdir(parents=True, exist_ok=True)
    for kind, file, text_of in (
        ("recipe", target, proposal.recipe),
        ("study", study, proposal.study),
    ):
        write_text(file, f"{write_schema(kind, beside=file)}\n{text_of}")
    lines = [*proposal.said, *_other_readings(found, reading, overrides)]
    lines += [f"written: {target} and {study}", f"next: regard train {target}"]
    for line in lines:
        console().print(f"  {line}", markup=False, soft_wrap=True)


def _choose(found: SourceContents) -> Reading:
    """The likeliest reading; where several are likely, the one that the user chooses."""
    from regard.data.recognition.reading import check_decidable, rivals

    readings = found.readings
    offered = rivals(readings)[:MAX_OFFERED]
    if len(offered) == 1 or not sys.stdin.isatty():
        return check_decidable(readings, where=found.files.splits["train"][0])
    for number, reading in enumerate(offered, start=1):
        console().print(f"  {number}  {reading.describe()}", markup=False, soft_wrap=True)
    while True:
        chosen: int = typer.prompt("Which is meant?", default=1, type=int)
        if 1 <= chosen <= len(offered):
            return offered[chosen - 1]
        console().print(f"  Give a number from 1 to {len(offered)}.", markup=False)


def _other_readings(found: SourceContents, reading: Reading, overrides: Overrides) -> list[str]:
    """How to choose what else the table may be."""
    if overrides.task is not None:
        return []
    least = reading.score - WORTH_NAMING
    others = [one for one in found.readings if one.score > least and one.task != reading.task]
    return [f"or: {one.describe()}, with {one.flags()}" for one in others[:1]]


def _check_unit(unit: str | None) -> Unit | None:
    from regard.core.errors import UserError, did_you_mean
    from regard.data.readers.records import Unit

    known = get_args(Unit)
    if unit is None or unit in known:
        return cast("Unit | None", unit)
    raise UserError(f"--unit {unit}: unknown{did_you_mean(unit, known)}")


def _name_from(source: str) -> str:
    stem = Path(source).name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "my-data"
