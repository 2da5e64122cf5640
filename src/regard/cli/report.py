"""`regard report RUN`: write the page that shows a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import console


def report(
    run: Annotated[Path, typer.Argument(help="The run's folder, such as runs/mini-gpt.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write it; by default RUN/report.html.")
    ] = None,
) -> None:
    """Write a run's report: one HTML file that opens offline."""
    from regard.study.report import write_report

    console().print(str(write_report(run, out=out)), markup=False, soft_wrap=True)
