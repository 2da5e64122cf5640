"""`regard predict RUN FILE`: what a trained task model answers to a person's own rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import AsJson, Base, OwnFiles, console, print_json, progress_bar
from regard.core.errors import UserError

BARE_SHOWN = 3
"Rows without a text that are named."


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder of a recipe with a [task].")],
    file: Annotated[Path, typer.Argument(help="Rows with the columns that the task reads.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write: .jsonl, .csv or .tsv; by default FILE.predicted.jsonl."),
    ] = None,
    header: Annotated[bool, typer.Option(help="Whether a CSV or TSV has a header.")] = True,
    base: Base = None,
    own_files: OwnFiles = None,
    as_json: AsJson = False,
) -> None:
    """Answer every row of a file, with how sure the model is.

    The file needs the columns that the model reads; what is right need not be in it."""
    from regard import api
    from regard.cli.models.written_rows import check_form, write_rows

    place = out or file.with_name(f"{file.name}.predicted.jsonl")
    check_form(place)
    if place.exists() and file.exists() and place.samefile(file):
        raise UserError(
            f"{place} holds the rows that are to be answered",
            topic="predict",
            hint="Write the answers to another file.",
        )
    with progress_bar("answering") as on_progress:
        answers = api.predict(
            api.load(run, base=base, own_files=own_files or ()),
            file,
            header=header,
            on_progress=on_progress,
        )
    if as_json:
        print_json(answers)
        return
    write_rows(place, answers)
    bare = [answer["at"] for answer in answers if answer["predicted"] is None]
    console().print(f"  {len(answers) - len(bare):,} rows answered", markup=False)
    if bare:
        shown = "; ".join(bare[:BARE_SHOWN]) + (" …" if len(bare) > BARE_SHOWN else "")
        words = f"  {len(bare):,} without a text have no answer: {shown}"
        console().print(words, markup=False, soft_wrap=True, style="yellow")
    console().print(f"  {place}", markup=False, soft_wrap=True)
