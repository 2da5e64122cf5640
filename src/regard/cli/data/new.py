"""`regard new`: look at a person's text and write a recipe that runs on it."""

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
        list[str], typer.Argument(help="Files, folders, patterns or a built-in corpus.")
    ],
    out: Annotated[Path | None, typer.Option(help="The recipe; NAME.toml by default.")] = None,
    name: Annotated[str | None, typer.Option(help="What the run is called.")] = None,
    text: Annotated[str | None, typer.Option(help="The column that holds the text.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="A document is a line, a paragraph or a file.")
    ] = None,
) -> None:
    """Look at your text and write a commented recipe for it; asks only what it cannot see."""
    from regard.core.errors import UserError, did_you_mean
    from regard.core.files import write_text
    from regard.runs.preparation.propose import preview_corpus, propose, propose_unit
    from regard.runs.recipe import Recipe

    if unit not in (None, "line", "paragraph", "file"):
        known = ("line", "paragraph", "file")
        raise UserError(f"--unit {unit}: unknown{did_you_mean(str(unit), known)}")
    first = Path(sources[0])
    if text and _is_plain(first):
        raise UserError(
            f"--text {text} names a column, but {first} is plain text",
            topic="new",
            hint="Leave it out; --unit says what a document is.",
        )
    column = text or (_ask_column(first) if first.is_file() else None)
    chosen: Unit = unit or (propose_unit(first) if _is_plain(first) else "line")  # type: ignore[assignment]
    called = name or _name_from(sources[0])
    target = out or Path(f"{called}.toml")
    if target.exists():
        raise UserError(
            f"{target} exists already", topic="new", hint="Give another name with --out."
        )
    seen = preview_corpus(sources, column=column or "text", unit=chosen)
    written = propose(called, sources, column=column, unit=chosen, seen=seen)
    Recipe.from_table(tomllib.loads(written))  # what is written is known to be valid
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, written)
    console().print(written, markup=False)
    console().print(f"  written to {target}. Next: regard train {target}", markup=False)


def _is_plain(path: Path) -> bool:
    from regard.data.readers.formats import file_format

    return path.is_file() and file_format(path) == "txt"


def _ask_column(path: Path) -> str | None:
    """The one column of words; where there are several, the person is asked, if there is one."""
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
            f"  taking column {longest!r}, the longest of {len(columns)}; --text names another",
            markup=False,
        )
    return longest


def _name_from(source: str) -> str:
    stem = Path(source).name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "my-text"
