"""Charts of the page: the reports' own, drawn in the browser at its width, or here for a paper.

A place for a chart knows the address of its specification. The browser draws that with Vega's
interpreter, which evaluates no code; the same address as .svg or .png is drawn here, and as .csv it
is the numbers.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from regard.core.errors import UserError
from regard.reports.charts import run_charts
from regard.reports.charts.study_charts import labels_to_tooltips
from regard.reports.charts.theme import DARK, LIGHT, Chart
from regard.reports.run_report import InlineChart

Draw = Callable[..., Chart | None]
FORMATS = {
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "csv": "text/csv; charset=utf-8",
}
THEMES = {"light": LIGHT, "dark": DARK}
BACKGROUNDS = {"light": "white", "dark": "#14171a"}
MIN_WIDTH, MAX_WIDTH, PAPER_WIDTH = 240, 1600, 860


class EmptyChartError(UserError):
    """What a chart shows is not there, or not there any more."""


def place(draw: Draw, subject: object, *, address: str, version: str = "") -> list[InlineChart]:
    """Where the browser draws a chart, as the reports' templates take it; empty if there is nothing
    to draw."""
    if _chart(draw, subject, theme="light", width=PAPER_WIDTH) is None:
        return []
    return place_at(address, version=version)


def place_at(address: str, *, version: str) -> list[InlineChart]:
    """The same for a chart that is known to show something."""
    element = Markup(
        '<div class="plot" data-chart="{address}" data-version="{version}">'
        '<noscript><img src="{address}.svg" alt=""></noscript></div>'
    ).format(address=address, version=version)
    return [InlineChart("any", "any", element)]


def answer(
    draw: Draw, subject: object, *, format: str, options: Mapping[str, str]
) -> tuple[bytes, str]:
    """A chart in a format, and its media type; `options` are those of the address."""
    theme, width = picture_options(options)
    chart = _chart(draw, subject, theme=theme, width=width)
    if chart is None:
        raise EmptyChartError("there is nothing to draw yet", topic="page")
    if format == "json":
        return json.dumps(specification(chart)).encode(), FORMATS[format]
    if format == "csv":
        return numbers(specification(chart)).encode(), FORMATS[format]
    on_paper = chart.properties(background=BACKGROUNDS[theme])
    if format == "svg":
        return str(labels_to_tooltips(run_charts.to_svg(on_paper))).encode(), FORMATS[format]
    return run_charts.to_png(on_paper), FORMATS[format]


def specification(chart: Chart) -> dict[str, Any]:
    """In Vega-Lite, as the browser draws it."""
    with debug_mode(False):  # its validation takes as long as drawing; tests validate the charts
        return dict(json.loads(chart.to_json(validate=False)))


def numbers(spec: Mapping[str, Any]) -> str:
    """The data of a chart as CSV: every row of every dataset, with the dataset's name."""
    tables = dict(spec.get("datasets", {}))
    rows = [
        {"data": name, **row}
        for name, table in tables.items()
        if name != "strips"  # of tooltips
        for row in table
    ]
    columns = [one for one in dict.fromkeys(key for row in rows for key in row) if one != "tooltip"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: safe_cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def finite(value: object) -> object:
    """NaN and infinities as null: JSON has neither."""
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return value


def safe_cell(value: Any) -> Any:
    """For CSV: a spreadsheet takes a text that begins so for a formula."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value


def _chart(draw: Draw, subject: object, *, theme: str, width: int) -> Chart | None:
    with debug_mode(False):
        return draw(subject, theme=THEMES[theme], width=width)


def picture_options(options: Mapping[str, str]) -> tuple[str, int]:
    """Theme and width, as an address gives them."""
    theme, width = options.get("theme", "light"), options.get("width", str(PAPER_WIDTH))
    if theme not in THEMES:
        raise UserError(f"theme = {theme!r}: light or dark", topic="page")
    if not width.isascii() or not width.isdigit() or len(width) > 5:
        raise UserError(f"width = {width!r}: give pixels", topic="page")
    return theme, min(max(int(width), MIN_WIDTH), MAX_WIDTH)
