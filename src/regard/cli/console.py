"""Terminal output: consoles, a progress bar, JSON, and options that several commands share.

Rich is imported at the first print, so that `--help` stays fast.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.core.progress import OnProgress

if TYPE_CHECKING:
    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
UserFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--with", help="Python file that adds your own attention kinds, tasks, …; repeatable."
    ),
]
Base = Annotated[
    Path | None,
    typer.Option(help="Folder of the adapter's base model, if it has moved."),
]
PIPE_WIDTH = 120


@cache
def console() -> Console:
    """Standard output, for results; in a pipe, wide enough for tables."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


@cache
def side_console() -> Console:
    """Standard error, for progress and remarks, so that results can be piped."""
    from rich.console import Console

    width = None if sys.stderr.isatty() else PIPE_WIDTH
    return Console(highlight=False, stderr=True, width=width)


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


@contextmanager
def progress_bar(description: str) -> Iterator[OnProgress]:
    """A bar on standard error; yields a callback (done, total or None if unknown)."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("  {task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.completed:,.0f}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=side_console(), transient=True) as bar:
        task = bar.add_task(description, total=None)

        def on_progress(done: int, total: int | None = None) -> None:
            bar.update(task, completed=done, total=total)

        yield on_progress
