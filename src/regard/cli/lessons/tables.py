"""Lessons and exercises in the terminal: tables of values and checks, attention as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table as RichTable
from rich.text import Text

from regard.cli.tables import PlainTable
from regard.lessons.number_format import format_expected, format_measured, format_value

if TYPE_CHECKING:
    from regard.lessons.exercise import Heatmap
    from regard.lessons.lesson import Check, LessonTable

BAR_WIDTH = 24
"Characters of the bar of a weight of 1."
EIGHTHS = " ▏▎▍▌▋▊▉█"
SHADES = " ░▒▓█"
MAX_COLUMNS = 24


def numbers_table(table: LessonTable) -> RichTable:
    rich_table = PlainTable(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for number, column in enumerate(table.columns):
        rich_table.add_column(Text(column), justify="left" if number == 0 else "right")
    for row in table.rows:
        rich_table.add_row(*(Text(format_value(cell)) for cell in row))
    return rich_table


def checks_table(checks: Sequence[Check]) -> RichTable:
    rich_table = PlainTable(box=None, show_header=False, padding=(0, 2, 0, 0))
    for check in checks:
        mark = Text("✓", style="green") if check.passed else Text("✗", style="bold red")
        rich_table.add_row(
            mark, Text(check.name), Text(format_measured(check)), Text(format_expected(check))
        )
    return rich_table


def draw_attention(weights: Heatmap) -> Text:
    """One query as bars, several as a heat map."""
    names = weights.columns if len(weights.rows) == 1 else weights.rows
    width = max(map(len, names), default=0)
    if len(weights.rows) == 1:
        row = weights.values.reshape(-1).tolist()
        lines = [
            f"  {name.ljust(width)}  {_bar(value)} {format_value(float(value))}"
            for name, value in zip(weights.columns, row, strict=True)
        ]
    else:
        lines = [
            f"  {name.ljust(width)}  {' '.join(_shade(value) * 2 for value in row[:MAX_COLUMNS])}"
            for name, row in zip(weights.rows, weights.values.tolist(), strict=True)
        ]
    return Text("\n".join(lines))


def _bar(value: float) -> str:
    eighths = round(8 * BAR_WIDTH * min(max(value, 0.0), 1.0))
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (EIGHTHS[rest] if rest else "")).ljust(BAR_WIDTH, "·")


def _shade(value: float) -> str:
    step = round((len(SHADES) - 1) * min(max(value, 0.0), 1.0))
    return SHADES[step] if step else "·"
