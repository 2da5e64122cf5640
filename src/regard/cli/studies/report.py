"""`regard report`: write the HTML report of a run or a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.completion import complete_run
from regard.cli.console import UserFiles, console


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            autocompletion=complete_run,
            help="Run folder or study folder, such as runs/mini-gpt.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="HTML file; default: FOLDER/report.html.")
    ] = None,
    user_files: UserFiles = None,
) -> None:
    """Write the HTML report of a run or a study.

    The report is one self-contained file. Without --out, a study also gets its tables (Markdown,
    LaTeX) and charts (SVG, PNG)."""
    from regard import api

    page = api.report(folder, out=out, user_files=user_files or ())
    console().print(str(page), markup=False, soft_wrap=True)
