"""`regard predict`: predictions of a task model for the rows of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.completion import complete_run
from regard.cli.console import AsJson, Base, UserFiles, console, print_json, progress_bar
from regard.core.errors import UserError

MAX_EMPTY_SHOWN = 3
"Rows without a text that are listed."


def predict(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", autocompletion=complete_run, help="Run folder of a recipe with a [task]."
        ),
    ],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Rows with the task's input columns.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Output .jsonl, .csv or .tsv; default: FILE.predicted.jsonl."),
    ] = None,
    header: Annotated[bool, typer.Option(help="Whether a CSV or TSV has a header line.")] = True,
    base: Base = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Predict every row of a file, with the model's confidence.

    The file needs the task's input columns; labels are not required."""
    from regard import api
    from regard.cli.row_files import check_format, write_rows
    from regard.evaluation.formatting import quantity

    target = out or file.parent / f"{file.name}.predicted.jsonl"
    check_format(target, topic="predict")
    if target.exists() and file.exists() and target.samefile(file):
        raise UserError(
            f"{target} is the input file",
            topic="predict",
            hint="Write the predictions to another file.",
        )
    with progress_bar("predicting") as on_progress:
        predictions = api.predict(
            api.load(run, base=base, user_files=user_files or ()),
            file,
            header=header,
            on_progress=on_progress,
        )
    if as_json:
        print_json(predictions)
        return
    write_rows(target, predictions)
    empty = [row["at"] for row in predictions if row["predicted"] is None]
    console().print(f"  {quantity(len(predictions) - len(empty), 'rows')} predicted", markup=False)
    if empty:
        shown = "; ".join(empty[:MAX_EMPTY_SHOWN]) + (" …" if len(empty) > MAX_EMPTY_SHOWN else "")
        warning = f"  no prediction for {quantity(len(empty), 'rows')} without a text: {shown}"
        console().print(warning, markup=False, soft_wrap=True, style="yellow")
    console().print(f"  {target}", markup=False, soft_wrap=True)
