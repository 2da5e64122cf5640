"""Tables in the terminal, in the look that all commands share.

Imported where a command prints, never at the top of its module: Rich takes a tenth of a second.
"""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table

from regard.cli.console import PIPE_WIDTH, console

INDENT = 2
"Spaces before what a command prints."


class PlainTable(Table):
    """A table without lines, in which a narrow column breaks a long word and cuts nothing."""

    def add_column(self, *args: Any, **options: Any) -> None:
        super().add_column(*args, **({"overflow": "fold"} | options))


def plain_table(*, show_header: bool = True, show_footer: bool = False) -> Table:
    return PlainTable(
        box=None, padding=(0, 2, 0, 0), show_header=show_header, show_footer=show_footer
    )


def print_indented(shown: RenderableType, *, above: int = 0, below: int = 0) -> None:
    """Print with empty lines above and below. A terminal too narrow for a table's words wraps its
    lines: no word or number is cut."""
    out = console()
    unlimited = out.options.update(width=PIPE_WIDTH)
    out.width = max(out.width, 2 * INDENT + Measurement.get(out, unlimited, shown).minimum)
    out.print(Padding(shown, (above, 0, below, INDENT)))
