"""Drawings of a mask: text for the terminal, or a self-contained SVG.

One row per query, one column per key, both counted from 0; filled = may attend. A mask that differs
between the rows of a batch is drawn for the first row. The SVG follows the reader's light or dark
colour scheme, and its styles are scoped to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from regard.core.errors import UserError
from regard.core.printable import escape_unprintable, terminal_width, truncate

if TYPE_CHECKING:
    from regard.attention.masks.mask import Mask

ALLOWED, FORBIDDEN = "■", "·"
LEGEND = "row = query, column = key, filled = may attend"
DEFAULT_LENGTH = 9
"Positions that are drawn of a mask for any length."
MAX_LENGTH = 500
MAX_LABEL_LENGTH = 24
MAX_SPACED_COLUMNS = 40
"Up to this many columns, cells in the terminal have a space between them."

STYLE = """
.regard-mask { font: 13px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; }
.regard-mask .paper { fill: #ffffff; } .regard-mask .gaps { stroke: #ffffff; }
.regard-mask .not { fill: #e7e9ec; } .regard-mask .may { fill: #005f9e; }
.regard-mask text { fill: #1b1f24; } .regard-mask .quiet { fill: #5f6873; }
.regard-mask .name { font-size: 15px; font-weight: 600; }
@media (prefers-color-scheme: dark) {
.regard-mask .paper { fill: #14171a; } .regard-mask .gaps { stroke: #14171a; }
.regard-mask .not { fill: #2b3138; } .regard-mask .may { fill: #8ccbfa; }
.regard-mask text { fill: #e6e8eb; } .regard-mask .quiet { fill: #a3abb5; }
}
"""
MARGIN = 16.0
LETTER_WIDTH = 7.4
"Average width of a letter in pixels, rounded up: the reader's font is unknown."
WIDE_LETTERS = "mwMWOQ@%&"
"Letters 1.5 times as wide."


def draw_text(
    mask: Mask, queries: int, keys: int | None = None, labels: Sequence[str] | None = None
) -> str:
    """The mask for a terminal; with labels, one per query, rows and columns are numbered."""
    rows = _table(mask, queries, keys)
    gap = " " if len(rows[0]) <= MAX_SPACED_COLUMNS else ""
    lines = [gap.join(ALLOWED if cell else FORBIDDEN for cell in row) for row in rows]
    if labels is None:
        return "\n".join(lines)
    above = _column_numbers(len(rows[0]), gap)
    digits = len(str(queries - 1))
    names = [f"{i:>{digits}} {name}" for i, name in enumerate(_clean_labels(labels, queries))]
    beside = [""] * len(above) + names
    width = max(map(terminal_width, beside))
    return "\n".join(
        f"{name}{' ' * (width - terminal_width(name))}  {line}"
        for name, line in zip(beside, [*above, *lines], strict=True)
    )


def draw_svg(
    mask: Mask,
    queries: int,
    keys: int | None = None,
    labels: Sequence[str] | None = None,
    *,
    title: str = "",
) -> str:
    """The mask as an SVG; labels, one per query, also name the columns of a square mask."""
    rows = _table(mask, queries, keys)
    columns = len(rows[0])
    cell = _cell_size(max(queries, columns), minimum=3.0 if labels is None else 16.0)
    beside = _tick_numbers(queries, cell) if labels is None else _clean_labels(labels, queries)
    above = beside if columns == queries else _tick_numbers(columns, cell)
    left, top = MARGIN + _text_width(beside) + 8, MARGIN + 52
    top += 16 if _are_horizontal(above) else _text_width(above)
    right, bottom = left + columns * cell, top + queries * cell
    name = mask.name
    if name.startswith("(") and name.endswith(")"):  # a composed mask's; redundant in a title
        name = name[1:-1]
    full_title = escape_unprintable(title or name)
    shown = truncate(full_title, 72)
    width = max(right, MARGIN + LETTER_WIDTH * max(1.2 * len(shown), len(LEGEND))) + MARGIN
    elements = [
        f"<title>{escape(full_title)}</title><desc>{LEGEND}</desc><style>{STYLE}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{bottom + MARGIN:.0f}"/>',
        f'<text class="name" x="{MARGIN}" y="{MARGIN + 14}">{escape(shown)}</text>',
        f'<text class="quiet" x="{MARGIN}" y="{MARGIN + 34}">{LEGEND}</text>',
        *_cells(rows, left=left, top=top, cell=cell),
        *_row_names(beside, x=left - 8, top=top, cell=cell),
        *_column_names(above, left=left, y=top - 8, cell=cell),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="regard-mask" role="img" '
        f'viewBox="0 0 {width:.0f} {bottom + MARGIN:.0f}" '
        f'width="{width:.0f}" height="{bottom + MARGIN:.0f}">\n'
        + "\n".join(elements)
        + "\n</svg>\n"
    )


def _table(mask: Mask, queries: int, keys: int | None) -> list[list[bool]]:
    keys = queries if keys is None else keys
    if not (1 <= queries <= MAX_LENGTH and 1 <= keys <= MAX_LENGTH):
        raise UserError(
            f"{queries} queries over {keys} keys cannot be drawn",
            topic="mask",
            hint=f"Give 1 to {MAX_LENGTH} of both.",
        )
    table: list[list[bool]] = mask.dense(queries, keys)[0, 0].tolist()
    return table


def _clean_labels(labels: Sequence[str], queries: int) -> list[str]:
    """The labels shortened, with line breaks and other control characters escaped."""
    if len(labels) != queries:
        raise UserError(
            f"{len(labels)} labels for {queries} queries", topic="mask", hint="Give one for each."
        )
    return [truncate(escape_unprintable(label), MAX_LABEL_LENGTH) for label in labels]


def _column_numbers(columns: int, gap: str) -> list[str]:
    """Column numbers from top to bottom, one digit per line; leading zeros stay blank."""
    digits = len(str(columns - 1))
    numbers = [str(j).rjust(digits) for j in range(columns)]
    return [gap.join(number[digit] for number in numbers) for digit in range(digits)]


def _cell_size(positions: int, *, minimum: float) -> float:
    """Pixels per cell: large while there are few, the whole drawing about one screen."""
    return max(minimum, min(26.0, 640.0 / positions))


def _tick_numbers(positions: int, cell: float) -> list[str]:
    """Position numbers, as many as fit beside cells of this size; "" in between."""
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100) if step * cell >= 20 or step == 100)
    return [str(i) if i % every == 0 else "" for i in range(positions)]


def _text_width(names: Sequence[str]) -> float:
    """Pixels of the longest name."""
    return max(
        LETTER_WIDTH * (terminal_width(name) + 0.5 * sum(map(name.count, WIDE_LETTERS)))
        for name in names
    )


def _are_horizontal(names: Sequence[str]) -> bool:
    """Whether names above columns fit horizontally; longer ones are rotated."""
    return max(map(terminal_width, names)) <= 3


def _cells(rows: list[list[bool]], *, left: float, top: float, cell: float) -> list[str]:
    """Runs of allowed cells on a pale background, with the gaps drawn over them."""
    height, width = len(rows), len(rows[0])
    runs = []
    for i, row in enumerate(rows):
        begin = 0
        for allowed, run in groupby(row):
            length = len(list(run))
            if allowed:
                x, y = left + begin * cell, top + i * cell
                runs.append(
                    f"M{x:.2f} {y:.2f}h{length * cell:.2f}v{cell:.2f}h-{length * cell:.2f}z"
                )
            begin += length
    across = "".join(
        f"M{left:.2f} {top + i * cell:.2f}h{width * cell:.2f}" for i in range(height + 1)
    )
    down = "".join(
        f"M{left + j * cell:.2f} {top:.2f}v{height * cell:.2f}" for j in range(width + 1)
    )
    gap = min(2.0, cell / 8)
    return [
        f'<rect class="not" x="{left:.2f}" y="{top:.2f}" '
        f'width="{width * cell:.2f}" height="{height * cell:.2f}"/>',
        f'<path class="may" d="{"".join(runs)}"/>',
        f'<path class="gaps" fill="none" stroke-width="{gap:.2f}" d="{across}{down}"/>',
    ]


def _row_names(names: Sequence[str], *, x: float, top: float, cell: float) -> list[str]:
    return [
        f'<text x="{x:.1f}" y="{top + (i + 0.5) * cell + 4.5:.1f}" text-anchor="end">'
        f"{escape(name)}</text>"
        for i, name in enumerate(names)
        if name
    ]


def _column_names(names: Sequence[str], *, left: float, y: float, cell: float) -> list[str]:
    elements = []
    for j, name in enumerate(names):
        x = left + (j + 0.5) * cell
        if _are_horizontal(names):
            placement = f'x="{x:.1f}" y="{y:.1f}" text-anchor="middle"'
        else:
            placement = f'transform="translate({x + 4.5:.1f} {y:.1f}) rotate(-90)"'
        if name:
            elements.append(f"<text {placement}>{escape(name)}</text>")
    return elements
