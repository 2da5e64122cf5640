"""Pictures of a text token by token, of a logit lens, and of what single heads do for the loss.

    shade of a token = −log₂ p: the more it surprised the model, the darker

Tokens come from texts and models: all are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from regard.core.printable import truncate
from regard.reports.charts.picture import Picture, escape_xml, label, text_width
from regard.reports.charts.theme import Theme

SIZE = 15.0
LINE = 46.0
MAX_TOKEN_LENGTH = 40
MAX_BITS = 12.0
"At which the shade is darkest."
CELL_HEIGHT = 38.0
MAX_LABEL_LENGTH = 14


class ShownToken(NamedTuple):
    """A token, and how probable it was."""

    text: str
    probability: float | None
    is_given: bool = False


def text_picture(
    tokens: Sequence[ShownToken], *, theme: Theme, width: int, title: str = ""
) -> Picture:
    """The text in lines, each token with its probability below it."""
    drawn, x, y = [], 0.0, 22.0
    for token in tokens:
        text = truncate(token.text.replace("\n", "⏎"), MAX_TOKEN_LENGTH) or "∅"
        percent = "" if token.probability is None else _percent(token.probability)
        box = max(text_width([text], SIZE), text_width([percent], 9.5)) + 6
        if x and x + box > width:
            x, y = 0.0, y + LINE
        opacity = 0.0
        if token.probability is not None:
            opacity = 0.6 * min(1.0, -math.log2(max(token.probability, 1e-9)) / MAX_BITS)
        drawn.append(
            f'<rect x="{x:.1f}" y="{y - 17:.1f}" width="{box - 2:.1f}" height="24" rx="3" '
            f'fill="{theme.test}" fill-opacity="{opacity:.2f}"><title>'
            f"{escape_xml(text)} {percent}</title></rect>"
        )
        middle = x + box / 2 - 1
        drawn.append(
            label(text, middle, y, fill=theme.ink, size=SIZE, anchor="middle", bold=token.is_given)
        )
        drawn.append(label(percent, middle, y + 17, fill=theme.quiet, size=9.5, anchor="middle"))
        x += box
        if "\n" in token.text:
            x, y = 0.0, y + LINE
    return Picture(width, y + 26, "".join(drawn), title)


class TableCell(NamedTuple):
    """A cell of a picture that is a table."""

    text: str
    detail: str
    opacity: float
    "0 to 1."
    is_marked: bool = False


def table_picture(
    columns: Sequence[str],
    rows: Mapping[str, Sequence[TableCell]],
    *,
    theme: Theme,
    title: str = "",
    footer: Sequence[str] = (),
) -> Picture:
    """Shaded cells with a text and a detail each, below the columns' names."""
    columns = [truncate(one, MAX_LABEL_LENGTH) for one in columns]
    shown = {
        name: [cell._replace(text=truncate(cell.text, MAX_LABEL_LENGTH)) for cell in cells]
        for name, cells in rows.items()
    }
    left = text_width([*rows, "follows"], 12) + 14
    texts = [*columns, *(cell.text for cells in shown.values() for cell in cells)]
    cell_width = max(46.0, text_width(texts, 12) + 10)
    drawn = [
        label(name, left + (n + 0.5) * cell_width, 14, fill=theme.quiet, anchor="middle")
        for n, name in enumerate(columns)
    ]
    top = 22.0
    for name, cells in shown.items():
        drawn.append(label(name, 0, top + 0.6 * CELL_HEIGHT, fill=theme.quiet))
        for n, cell in enumerate(cells):
            x = left + n * cell_width
            drawn.append(
                f'<rect x="{x + 1:.1f}" y="{top + 1:.1f}" width="{cell_width - 2:.1f}" '
                f'height="{CELL_HEIGHT - 2:.0f}" rx="3" fill="{theme.model}" '
                f'fill-opacity="{0.04 + 0.4 * min(max(cell.opacity, 0.0), 1.0):.2f}"/>'
            )
            middle = x + cell_width / 2
            drawn.append(
                label(
                    cell.text,
                    middle,
                    top + 17,
                    fill=theme.ink,
                    anchor="middle",
                    bold=cell.is_marked,
                )
            )
            drawn.append(
                label(cell.detail, middle, top + 31, fill=theme.ink, size=9.5, anchor="middle")
            )
        top += CELL_HEIGHT
    if footer:
        drawn.append(label("follows", 0, top + 16, fill=theme.quiet))
        for n, one in enumerate(footer):
            x = left + (n + 0.5) * cell_width
            text = truncate(one, MAX_LABEL_LENGTH)
            drawn.append(label(text, x, top + 16, fill=theme.quiet, anchor="middle"))
        top += 22
    width = left + cell_width * max([len(columns), *map(len, shown.values())], default=1)
    return Picture(width, top + 4, "".join(drawn), title)


def _percent(p: float) -> str:
    if p >= 0.9995:
        return "100 %"
    return f"{100 * p:.2g} %" if p >= 1e-4 else "< 0.01 %"
