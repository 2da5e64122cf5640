"""`regard new`: write a recipe for the user's own text."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import console

if TYPE_CHECKING:
    from regard.data.readers.records import Unit


def new(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE", help="Files, folders, glob patterns, or a built-in corpus."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Recipe file; default: NAME.toml.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="Document unit: line, paragraph or file.")
    ] = None,
) -> None:
    """Write a commented recipe for your text. Asks only what it cannot detect."""
    from regard.core.errors import UserError, did_you_mean
    from regard.core.files import write_text
    from regard.runs.preparation.propose import (
        preview_corpus,
        propose_group,
        propose_label,
        propose_recipe,
        propose_unit,
        read_columns,
        task_table,
    )
    from regard.runs.recipe import Recipe

    if unit not in (None, "line", "paragraph", "file"):
        known = ("line", "paragraph", "file")
        raise UserError(f"--unit {unit}: unknown{did_you_mean(str(unit), known)}")
    first = Path(sources[0])
    if text and _is_plain(first):
        raise UserError(
            f"--text {text} names a column, but {first} is plain text",
            topic="new",
            hint="Leave it out; --unit sets the document unit.",
        )
    column = text or (_ask_column(first) if first.is_file() else None)
    document_unit: Unit = unit or (propose_unit(first) if _is_plain(first) else "line")  # type: ignore[assignment]
    run_name = name or _name_from(sources[0])
    target = out or Path(f"{run_name}.toml")
    if target.exists():
        raise UserError(
            f"{target} exists already", topic="new", hint="Give another name with --out."
        )
    preview = preview_corpus(sources, column=column or "text", unit=document_unit)
    columns = read_columns(first) if column and first.is_file() else {}
    group = propose_group(columns, text=column) if column else None
    recipe = propose_recipe(
        run_name, sources, column=column, unit=document_unit, group=group, preview=preview
    )
    Recipe.from_table(tomllib.loads(recipe))  # validate it before writing
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, recipe)
    lines = [recipe, f"  written to {target}. Next: regard train {target}"]
    if name_in_rows := next((name for name, values in columns.items() if name in values), None):
        lines.append(
            f"  {name_in_rows!r} is the name of a column and a value in it: if {first} has no "
            "header line, set data.header = false (columns are then 1, 2 and so on)"
        )
    if column and (label := propose_label(columns, text=column)):
        lines.append(f"  to predict column {label!r} instead of the text, add to the recipe:")
        lines += [f"    {line}" for line in task_table(text=column, label=label).splitlines()]
    for line in lines:
        console().print(line, markup=False, soft_wrap=True)


def _is_plain(path: Path) -> bool:
    from regard.data.readers.formats import file_format

    return path.is_file() and file_format(path) == "txt"


def _ask_column(path: Path) -> str | None:
    """The text column; if there are several, ask the user, or take the longest in a pipe."""
    from regard.data.readers.columns import text_columns

    columns = text_columns(path)
    if not columns:
        return None
    longest = next(iter(columns))
    if len(columns) > 1 and sys.stdin.isatty():
        listed = ", ".join(f"{name} ({size:.0f} characters)" for name, size in columns.items())
        answer: str = typer.prompt(f"Which column holds the text: {listed}?", default=longest)
        return answer
    if len(columns) > 1:
        console().print(
            f"  using column {longest!r}, the longest of {len(columns)}; choose with --text",
            markup=False,
        )
    return longest


def _name_from(source: str) -> str:
    stem = Path(source).name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "my-text"
