"""A mask as a picture: a small table for the terminal, or an SVG that needs nothing else.

One row a query, one column a key, both counted from 0; filled = may attend. A mask that differs
between the rows of a batch is drawn for the first. The SVG follows the reader's light or dark
scheme, and its styles touch nothing outside of it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.attention.masks.mask import Mask

MAY, MAY_NOT = "■", "·"
LEGEND = "row = query, column = key, filled = may attend"
LONGEST_LABEL = 24
ROOMY = 40
"Columns up to which cells have a gap between them in the terminal."

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
LETTER = 7.4
"Pixels a letter takes on average, generously: the reader's font is unknown."
BROAD = "mwMWOQ@%&"
"Letters that take half as much again."


def draw_text(
    mask: Mask, queries: int, keys: int | None = None, labels: Sequence[str] | None = None
) -> str:
    """The mask for a terminal; with labels, one a query, rows and columns are numbered."""
    rows = _table(mask, queries, keys)
    gap = " " if len(rows[0]) <= ROOMY else ""
    lines = [gap.join(MAY if cell else MAY_NOT for cell in row) for row in rows]
    if labels is None:
        return "\n".join(lines)
    above = _numbers_above(len(rows[0]), gap)
    beside = [""] * len(above) + _numbered(labels, queries)
    room = max(map(_columns, beside))
    return "\n".join(
        f"{name}{' ' * (room - _columns(name))}  {line}"
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
    """The mask as an SVG; labels, one a query, name the columns too where keys are as many."""
    rows = _table(mask, queries, keys)
    columns = len(rows[0])
    cell = _cell(max(queries, columns), least=3.0 if labels is None else 16.0)
    beside = _counted(queries, cell) if labels is None else _named(labels, queries)
    above = beside if columns == queries else _counted(columns, cell)
    left, top = MARGIN + _room(beside) + 8, MARGIN + 52 + _height(above)
    right, bottom = left + columns * cell, top + queries * cell
    whole = _clean(title or _bare(mask.name))
    shown = _shortened(whole, 72)
    width = max(right, MARGIN + LETTER * max(1.2 * len(shown), len(LEGEND))) + MARGIN
    inside = [
        f"<title>{escape(whole)}</title><desc>{LEGEND}</desc><style>{STYLE}</style>",
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
        f'width="{width:.0f}" height="{bottom + MARGIN:.0f}">\n' + "\n".join(inside) + "\n</svg>\n"
    )


def _table(mask: Mask, queries: int, keys: int | None) -> list[list[bool]]:
    keys = queries if keys is None else keys
    if queries < 1 or keys < 1:
        raise UserError(
            f"{queries} queries over {keys} keys cannot be drawn",
            topic="mask",
            hint="Give 1 or more of both.",
        )
    table: list[list[bool]] = mask.dense(queries, keys)[0, 0].tolist()
    return table


def _bare(name: str) -> str:
    """A composed mask's name stands in brackets, which say nothing where it stands alone."""
    return name[1:-1] if name.startswith("(") and name.endswith(")") else name


def _named(labels: Sequence[str], queries: int) -> list[str]:
    """The labels as they can be shown anywhere: no line breaks or other control characters."""
    if len(labels) != queries:
        raise UserError(
            f"{len(labels)} labels for {queries} queries", topic="mask", hint="Give one for each."
        )
    return [_shortened(_clean(label), LONGEST_LABEL) for label in labels]


def _numbered(labels: Sequence[str], queries: int) -> list[str]:
    digits = len(str(queries - 1))
    return [f"{place:>{digits}} {name}" for place, name in enumerate(_named(labels, queries))]


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes: wide characters take two, accents none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _numbers_above(columns: int, gap: str) -> list[str]:
    """Column numbers from top to bottom, one digit a line; leading zeros stay blank."""
    digits = len(str(columns - 1))
    numbers = [str(place).rjust(digits) for place in range(columns)]
    return [gap.join(number[digit] for number in numbers) for digit in range(digits)]


def _cell(positions: int, *, least: float) -> float:
    """Pixels a cell takes: large while there are few, and a whole picture of about a screen."""
    return max(least, min(26.0, 640.0 / positions))


def _counted(positions: int, cell: float) -> list[str]:
    """Numbers, as many as fit beside cells of this size."""
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100) if step * cell >= 20 or step == 100)
    return [str(place) if place % every == 0 else "" for place in range(positions)]


def _room(names: Sequence[str]) -> float:
    return max(LETTER * (_columns(name) + 0.5 * sum(map(name.count, BROAD))) for name in names)


def _lie_flat(names: Sequence[str]) -> bool:
    """Whether names above columns can be read as they are; longer ones are turned."""
    return max(map(_columns, names)) <= 3


def _height(names: Sequence[str]) -> float:
    return 16 if _lie_flat(names) else _room(names)


def _cells(rows: list[list[bool]], *, left: float, top: float, cell: float) -> list[str]:
    """Runs of allowed cells on a faint ground, with the gaps drawn over them."""
    high, wide = len(rows), len(rows[0])
    runs = []
    for i, row in enumerate(rows):
        begin = 0
        for may, run in groupby(row):
            length = len(list(run))
            if may:
                x, y = left + begin * cell, top + i * cell
                runs.append(
                    f"M{x:.2f} {y:.2f}h{length * cell:.2f}v{cell:.2f}h-{length * cell:.2f}z"
                )
            begin += length
    across = "".join(f"M{left:.2f} {top + i * cell:.2f}h{wide * cell:.2f}" for i in range(high + 1))
    down = "".join(f"M{left + j * cell:.2f} {top:.2f}v{high * cell:.2f}" for j in range(wide + 1))
    gap = min(2.0, cell / 8)
    return [
        f'<rect class="not" x="{left:.2f}" y="{top:.2f}" '
        f'width="{wide * cell:.2f}" height="{high * cell:.2f}"/>',
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
    drawn = []
    for j, name in enumerate(names):
        x = left + (j + 0.5) * cell
        if _lie_flat(names):
            how = f'x="{x:.1f}" y="{y:.1f}" text-anchor="middle"'
        else:
            how = f'transform="translate({x + 4.5:.1f} {y:.1f}) rotate(-90)"'
        if name:
            drawn.append(f"<text {how}>{escape(name)}</text>")
    return drawn
