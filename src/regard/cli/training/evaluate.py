"""`regard evaluate`: evaluate a finished run again, next to its baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.completion import complete_run
from regard.cli.console import AsJson, Base, UserFiles, print_json, side_console


def evaluate(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", autocompletion=complete_run, help="Run folder.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="Where its data is now (data.corpus), if that moved: a file, a folder."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Where other files are: --set data.test=FILE; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write the results to this JSON file.")
    ] = None,
    base: Base = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a finished run again, next to its baselines.

    The documents must be those of the run, wherever their files are now."""
    from regard import api
    from regard.cli.training.results_table import print_results
    from regard.core.files import write_json
    from regard.core.json_records import record_table
    from regard.core.toml import parse_override
    from regard.progress.training_display import training_display

    with training_display(side_console()) as observer:
        results = api.evaluate(
            run,
            data=data,
            set=dict(map(parse_override, overrides or ())),
            base=base,
            user_files=user_files or (),
            observer=observer,
        )
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, record_table(results))
    if as_json:
        print_json(record_table(results))
    else:
        print_results(results, title=str(run))
