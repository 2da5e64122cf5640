"""Where progress is shown: a terminal, a notebook, or nowhere.

In a notebook, rich's live display needs ipywidgets; here bars and lines are one HTML output of the
cell, which is replaced while the cell runs.
"""

from __future__ import annotations

import io
import math
import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TaskID

NOTEBOOK_WIDTH = 110
"Characters of a line in a notebook."
SECONDS_BETWEEN_UPDATES = 0.25
"A notebook stores and sends every update."
STYLE = "white-space: pre-wrap; line-height: 1.4; margin: 0; font-family: monospace"
CELL = f'<pre style="{STYLE}">{{}}</pre>'


def default_console() -> Console | None:
    """Notebook or terminal on standard error; None if nobody is watching."""
    console = Console(stderr=True, highlight=False)
    if console.is_jupyter:
        return recording_console()
    return console if sys.stderr.isatty() else None


def recording_console() -> Console:
    """Prints nowhere, but can be exported as HTML."""
    return Console(
        file=io.StringIO(), record=True, force_jupyter=False, highlight=False, width=NOTEBOOK_WIDTH
    )


def progress_bars(*columns: ProgressColumn, console: Console) -> Progress:
    """Bars below the lines that are printed to the console meanwhile; they vanish at the end."""
    if console.record:
        return NotebookBars(*columns, console=console, transient=True)
    # Elsewhere than in a terminal only lines are printed; bars would leave an empty one.
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


class NotebookBars(Progress):
    """The recorded lines of a console and the bars, as one output of a notebook cell."""

    def start(self) -> None:
        self._handle: Any = None
        self._updated = -math.inf

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        if time.monotonic() >= self._updated + SECONDS_BETWEEN_UPDATES:
            self._show()

    def stop(self) -> None:
        for task in self.task_ids:
            super().update(task, visible=False)
        self._show()

    def _show(self) -> None:
        from IPython.display import HTML, display

        self._updated = time.monotonic()
        shown = self._shown()
        html = HTML(CELL.format(shown))
        if self._handle is not None:
            self._handle.update(html)
        elif shown:  # an empty output would stay in the cell
            self._handle = display(html, display_id=True)

    def _shown(self) -> str:
        below = recording_console()
        below.print(self.get_renderable())
        parts = (
            console.export_html(inline_styles=True, code_format="{code}", clear=False)
            for console in (self.console, below)
        )
        return "".join(parts).rstrip()
