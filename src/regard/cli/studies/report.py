"""`regard report`: write the HTML report of a run or a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import UserFiles, console


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Run folder or study folder, such as runs/mini-gpt."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="HTML file; default: FOLDER/report.html.")
    ] = None,
    user_files: UserFiles = None,
) -> None:
    """Write the HTML report of a run or a study.

    The report is one self-contained file. Without --out, a study also gets its tables (Markdown,
    LaTeX) and charts (SVG, PNG)."""
    if (folder / "study.toml").is_file():
        from regard import api
        from regard.reports.study_report import write_comparison_report
        from regard.studies.outcome import read_outcome

        api.load_parts(user_files or ())
        page = write_comparison_report(folder, read_outcome(folder), out=out)
    else:
        from regard.reports.run_report import write_report

        page = write_report(folder, out=out)
    console().print(str(page), markup=False, soft_wrap=True)
