"""`regard predict RUN FILE`: what a trained task model answers to a person's own rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import AsJson, Base, OwnFiles, console, print_json, progress_bar


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
    from regard.cli.written import write_rows

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
    place = out or file.with_name(f"{file.name}.predicted.jsonl")
    write_rows(place, answers)
    console().print(f"  {len(answers):,} rows answered", markup=False)
    console().print(f"  {place}", markup=False, soft_wrap=True)
