"""`regard report FOLDER`: write the page that shows a run or a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import OwnFiles, console


def report(
    folder: Annotated[
        Path, typer.Argument(help="A run's folder or a study's, such as runs/mini-gpt.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Where to write it; by default FOLDER/report.html.")
    ] = None,
    own_files: OwnFiles = None,
) -> None:
    """Write the report of a run or a study: one HTML file that opens offline.

    Into a study's own folder its tables (Markdown, LaTeX) and charts (SVG, PNG) are written too."""
    if (folder / "study.toml").is_file():
        from regard import api
        from regard.reports.study_report import write_comparison_report
        from regard.studies.outcome import read_outcome

        api.load_parts(own_files or ())
        page = write_comparison_report(folder, read_outcome(folder), out=out)
    else:
        from regard.reports.run_report import write_report

        page = write_report(folder, out=out)
    console().print(str(page), markup=False, soft_wrap=True)
