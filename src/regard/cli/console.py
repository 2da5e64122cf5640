"""Terminal output: consoles, a progress bar, JSON, and options that several commands share.

Rich is imported at the first print, so that `--help` stays fast.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from regard.core.progress import OnProgress

if TYPE_CHECKING:
    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
UserFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="FILE",
        help="Python file that adds your own attention kinds, tasks, …; repeatable.",
    ),
]
Base = Annotated[
    Path | None,
    typer.Option(help="Folder of the adapter's base model, if it has moved."),
]
PIPE_WIDTH = 10_000
"No line of a table is cut or wrapped where no one sees its width."
TRAILING_BLANKS = re.compile(r"[ \t]+$", re.MULTILINE)
_QUIET = [False]


def console() -> Console:
    """Standard output, for results; in a pipe nothing is cut, and no line ends in blanks."""
    return _console("stdout", quiet=False)


def side_console() -> Console:
    """Standard error, for progress and remarks, so that results can be piped."""
    return _console("stderr", quiet=_QUIET[0])


def set_quiet(quiet: bool) -> None:
    """Whether progress and remarks are left out."""
    _QUIET[0] = quiet


def _console(stream: str, *, quiet: bool) -> Console:
    """A new one each time: the stream and its width may have changed."""
    from rich.console import Console

    if getattr(sys, stream).isatty():
        return Console(highlight=False, stderr=stream == "stderr", quiet=quiet)
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdigit() and int(columns) else PIPE_WIDTH
    file = cast("IO[str]", TrimmedLines(stream))
    return Console(highlight=False, file=file, width=width, quiet=quiet)


class TrimmedLines:
    """A standard stream without the blanks that tables leave at the ends of lines."""

    def __init__(self, stream: str) -> None:
        self._name = stream

    def write(self, text: str) -> int:
        getattr(sys, self._name).write(TRAILING_BLANKS.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """The rest as the stream is now: tests replace it."""
        return getattr(getattr(sys, self._name), name)


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
    console = side_console()
    disable = not console.is_terminal  # bars would leave an empty line
    with Progress(*columns, console=console, transient=True, disable=disable) as bar:
        task = bar.add_task(description, total=None)

        def on_progress(done: int, total: int | None = None) -> None:
            bar.update(task, completed=done, total=total)

        yield on_progress
