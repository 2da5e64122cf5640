"""The files behind the views of a text: pictures as SVG or PNG, tables as CSV.

Each is made of what the view's JSON holds, so a file shows what the page shows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regard.core.errors import UserError
from regard.reports.charts.picture import Picture
from regard.reports.charts.theme import Theme
from regard.reports.charts.token_pictures import (
    ShownToken,
    TableCell,
    table_picture,
    text_picture,
)
from regard.web import plots

Found = Mapping[str, Any]
Table = list[dict[str, Any]]
TOKEN_COLUMNS = ("id", "label", "origin", "probability", "rank", "drawn")


def make_file(view: str, found: Found, *, format: str, options: Mapping[str, str]) -> bytes:
    """What a view found, as a file."""
    table, draw = VIEWS[view]
    if format == "csv":
        return csv_text(table(found)).encode()
    theme, width = plots.picture_options(options)
    picture = draw(found, plots.THEMES[theme], width)
    return picture.svg().encode() if format == "svg" else picture.png(theme=plots.THEMES[theme])


def csv_text(table: Table) -> str:
    """Rows with the columns that any of them has."""
    if not table:
        raise UserError("there is nothing to write down", topic="playground")
    text = io.StringIO()
    columns = list(dict.fromkeys(key for row in table for key in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: plots.safe_cell(value) for key, value in row.items()} for row in table)
    return text.getvalue()


def _text_table(found: Found) -> Table:
    rows = []
    for position, token in enumerate(found["tokens"]):
        row = {
            "position": position,
            **{
                key: token[key] for key in ("id", "label", "origin", "probability", "rank", "drawn")
            },
        }
        for n, one in enumerate(token["alternatives"], start=1):
            row |= {f"alternative_{n}": one["label"], f"probability_{n}": one["probability"]}
        rows.append(row)
    return rows


def _text_picture(found: Found, theme: Theme, width: int) -> Picture:
    tokens = [
        ShownToken(one["piece"] or one["label"], one["probability"], one["origin"] == "prompt")
        for one in found["tokens"]
    ]
    return text_picture(tokens, theme=theme, width=width, title="A text, token by token")


def _lens_table(found: Found) -> Table:
    return [
        {
            "layer": layer,
            "position": found["first"] + n,
            "reads": found["tokens"][n],
            "follows": found["following"][n],
            **cell,
        }
        for layer, cells in zip(found["layers"], found["cells"], strict=True)
        for n, cell in enumerate(cells)
    ]


def _lens_picture(found: Found, theme: Theme, width: int) -> Picture:
    rows = {
        layer: [
            TableCell(
                cell["top"],
                f"{100 * cell['top_probability']:.2g} %",
                cell["top_probability"],
                cell["top"] == follows,
            )
            for cell, follows in zip(cells, found["following"], strict=True)
        ]
        for layer, cells in reversed(list(zip(found["layers"], found["cells"], strict=True)))
    }
    return table_picture(
        found["tokens"], rows, theme=theme, title="Logit lens", footer=found["following"]
    )


def _heads_table(found: Found) -> Table:
    off = [tuple(one) for one in found["off"]]
    return [
        {
            "layer": layer,
            "head": head,
            "off": (layer, head) in off,
            "loss_without": loss,
            "rise": loss - found["loss"],
            "tokens": found["n"],
        }
        for layer, losses in found["without"].items()
        for head, loss in enumerate(losses)
    ]


def _heads_picture(found: Found, theme: Theme, width: int) -> Picture:
    rises = [row["rise"] for row in _heads_table(found)]
    largest = max(map(abs, rises), default=0.0) or 1.0
    off = [tuple(one) for one in found["off"]]

    def cell(layer: str, head: int, loss: float) -> TableCell:
        rise = loss - found["loss"]
        if (layer, head) in off:
            return TableCell("off", "", 0.0)
        return TableCell(f"{rise:+.3f}", "nats", rise / largest)

    rows: dict[str, Sequence[TableCell]] = {
        layer: [cell(layer, head, loss) for head, loss in enumerate(losses)]
        for layer, losses in found["without"].items()
    }
    count = max(map(len, rows.values()), default=0)
    heads = [f"head {n}" for n in range(count)]
    return table_picture(heads, rows, theme=theme, title="Rise of the loss without each head")


VIEWS: dict[str, tuple[Callable[[Found], Table], Callable[[Found, Theme, int], Picture]]] = {
    "text": (_text_table, _text_picture),
    "lens": (_lens_table, _lens_picture),
    "heads": (_heads_table, _heads_picture),
}
"The table and the picture of each view."
