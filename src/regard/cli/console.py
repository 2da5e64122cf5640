"""How the command line speaks: one console, one progress bar, one way to print JSON.

Rich is imported when something is first printed, so that `--help` stays quick.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print the figures as JSON instead.")]
OwnFiles = Annotated[
    list[Path] | None,
    typer.Option("--with", help="A Python file of your own whose parts the recipe names."),
]
Base = Annotated[
    Path | None,
    typer.Option(help="Where the model now lies that the run's adapter was trained on."),
]
PIPE_WIDTH = 120
OnProgress = Callable[[int, int | None], None]


@cache
def console() -> Console:
    """Standard output, for what was asked for; in a pipe, as wide as tables need."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


@cache
def side_console() -> Console:
    """Standard error, for progress and remarks, so that output can be piped."""
    from rich.console import Console

    width = None if sys.stderr.isatty() else PIPE_WIDTH
    return Console(highlight=False, stderr=True, width=width)


def print_json(figures: Any) -> None:
    json.dump(figures, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


@contextmanager
def progress_bar(what: str) -> Iterator[OnProgress]:
    """A bar on standard error; call what it gives with (done, total or None where unknown)."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("  {task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.completed:,.0f}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=side_console(), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def on_progress(done: int, total: int | None = None) -> None:
            bar.update(task, completed=done, total=total)

        yield on_progress
