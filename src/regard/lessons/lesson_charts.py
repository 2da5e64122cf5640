"""Chart types of lessons: line charts, bar charts and heatmaps, drawn per theme and width.

    chart = line_chart(rows, x="β", y="error", series="keys", log="y")

Rows are dicts; column names become axis titles. They reach Vega as data values under fixed field
names, so that a name with a dot or a bracket is never parsed as an expression.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Any, Literal

import altair as alt

from regard.lessons.lesson import ChartFunction
from regard.lessons.number_format import format_value
from regard.reports.charts import theme as chart_theme
from regard.reports.charts.theme import Chart, Theme

Row = Mapping[str, Any]
MAX_TICKS = 9
ZERO_BASELINE_RATIO = 0.4
"Ratio of smallest to largest value up to which a line chart's y axis starts at zero."


def line_chart(
    rows: Sequence[Row],
    *,
    x: str,
    y: str,
    series: str | None = None,
    log: Literal["", "x", "y", "xy"] = "",
    reference: float | None = None,
    interpolate: Literal["linear", "step"] = "linear",
) -> ChartFunction:
    """Lines with points; `log` names the logarithmic axes, `reference` draws a dashed horizontal
    line, `interpolate` is how points are connected."""
    log_x, log_y = "x" in log, "y" in log
    values = _with_fixed_fields(rows, x=x, y=y, series=series)
    names = list(dict.fromkeys(row["series"] for row in values))
    points = [row for row in values if _drawable(row["x"], log_x) and _drawable(row["y"], log_y)]

    def draw(*, theme: Theme, width: int) -> Chart:
        base = alt.Chart(alt.InlineData(values=points)).encode(
            x=alt.X("x:Q", title=x, scale=_scale(log_x), axis=_x_axis(points, log_x, width)),
            y=alt.Y(
                "y:Q", title=y, scale=_y_scale(points, log_y), axis=_axis(points, "y", log_y, width)
            ),
            color=_colour(names, theme, chart_theme.legend(width)),
        )
        line = base.mark_line(strokeWidth=1.8, interpolate=interpolate)
        layers = [line, base.mark_circle(size=30, opacity=1)]
        if reference is not None:
            level = alt.Chart(alt.InlineData(values=[{"y": reference}]))
            layers.append(
                level.mark_rule(strokeDash=[5, 4], color=theme.quiet).encode(y=alt.Y("y:Q"))
            )
        return chart_theme.apply_theme(alt.layer(*layers), theme=theme, size=(width, 320))

    return draw


def bar_chart(
    rows: Sequence[Row],
    *,
    name: str,
    value: str,
    series: str | None = None,
    scale: Literal["linear", "log"] = "linear",
) -> ChartFunction:
    """One bar per row with its value as a label; bars of one name are grouped."""
    values, log = _with_fixed_fields(rows, x=value, y=name, series=series), scale == "log"
    for row in values:
        row["label"] = format_value(float(row["x"]))
        # The label goes beside the bar: for a negative bar, right of zero.
        row["end"] = row["x"] if log else max(row["x"], 0)
    groups = list(dict.fromkeys(row["y"] for row in values))
    names = list(dict.fromkeys(row["series"] for row in values))
    points = [row for row in values if _drawable(row["x"], log)]

    def draw(*, theme: Theme, width: int) -> Chart:
        extent = chart_theme.name_width(groups, width=width)
        base = alt.Chart(alt.InlineData(values=points)).encode(
            x=alt.X(
                "x:Q",
                title=value,
                scale=_bar_scale(points, log),
                axis=_axis(points, "x", log, width),
            ),
            y=alt.Y("y:N", sort=groups, title=None, axis=chart_theme.name_axis(extent)),
            color=_colour(names, theme, _square_legend(width)),
        )
        if len(names) > 1:
            base = base.encode(yOffset=alt.YOffset("series:N", sort=names))
        labels = base.mark_text(align="left", dx=5, fontSize=12).encode(
            x=alt.X("end:Q", title=value), text="label:N"
        )
        height = 76 + (26 if len(names) > 1 else 0) + (22 * len(names) + 10) * len(groups)
        bars = base.mark_bar()
        if log and points:  # a logarithmic axis has no zero for bars to start at
            bars = bars.encode(x2=alt.X2Datum(_log_domain(points)[0]))
        return chart_theme.apply_theme(alt.layer(bars, labels), theme=theme, size=(width, height))

    return draw


def heatmap(
    values: Sequence[Sequence[float]],
    *,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    title: str,
    axes: tuple[str, str] = ("query", "key"),
) -> ChartFunction:
    """A heatmap of values[row][column]: the stronger the colour, the larger the value."""
    cells: list[dict[str, Any]] = [
        # By number: two rows or columns may have the same label.
        {
            "row": f"{i}",
            "column": f"{j}",
            "value": cell,
            "label": format_value(float(cell), digits=2),
        }
        for i, row in enumerate(values)
        for j, cell in enumerate(row)
    ]
    highest = max((cell["value"] for cell in cells), default=1.0) or 1.0
    lowest = min(0.0, *(cell["value"] for cell in cells))

    def draw(*, theme: Theme, width: int) -> Chart:
        shades = alt.Scale(domain=[lowest, highest], range=[theme.grid, theme.model])
        base = alt.Chart(alt.InlineData(values=cells)).encode(
            x=alt.X(
                "column:N",
                sort=None,
                title=axes[1],
                axis=alt.Axis(
                    labelExpr=_label_expression(column_labels),
                    labelAngle=0 if max(map(len, column_labels)) <= 3 else -45,
                    orient="top",
                    domain=False,
                    ticks=False,
                ),
            ),
            y=alt.Y(
                "row:N",
                sort=None,
                title=axes[0],
                axis=alt.Axis(labelExpr=_label_expression(row_labels), domain=False, ticks=False),
            ),
        )
        layers: list[alt.Chart] = [
            base.mark_rect(stroke=None).encode(
                color=alt.Color(
                    "value:Q",
                    scale=shades,
                    title=title,
                    legend=alt.Legend(
                        orient="bottom",
                        titleColor=theme.quiet,
                        titleFontWeight="normal",
                        gradientLength=min(240, width // 2),
                    ),
                )
            )
        ]
        if len(column_labels) <= (14 if width > 480 else 7):
            strong = alt.datum.value > 0.55 * highest + 0.45 * lowest
            background = "#ffffff" if theme.name == "light" else "#14171a"
            layers.append(
                base.mark_text(fontSize=11).encode(
                    text="label:N",
                    color=alt.condition(strong, alt.value(background), alt.value(theme.ink)),
                )
            )
        height = 130 + min(34, 360 // max(len(row_labels), 1)) * len(row_labels)
        return chart_theme.apply_theme(alt.layer(*layers), theme=theme, size=(width, height))

    return draw


def _label_expression(labels: Sequence[str]) -> str:
    """Vega expression from a tick's number to its label; labels are JSON strings, never code."""
    # Vega parses JSON strings except for \u2028, which no label contains.
    return f"{json.dumps(list(labels))}[datum.value]"


def _with_fixed_fields(
    rows: Sequence[Row], *, x: str, y: str, series: str | None
) -> list[dict[str, Any]]:
    return [
        {"x": row[x], "y": row[y], "series": "" if series is None else str(row[series])}
        for row in rows
    ]


def _drawable(value: Any, log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not log)


def _scale(log: bool) -> alt.Scale:
    return alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False)


def _y_scale(rows: Sequence[Row], log: bool) -> alt.Scale:
    """From zero where the smallest value is near it: otherwise that value would look like zero."""
    low, high = (pick((row["y"] for row in rows), default=0.0) for pick in (min, max))
    return (
        alt.Scale(zero=True) if not log and 0 <= low <= ZERO_BASELINE_RATIO * high else _scale(log)
    )


def _bar_scale(rows: Sequence[Row], log: bool) -> alt.Scale:
    """With space for the labels at the ends."""
    if not rows:
        return alt.Scale()
    if log:
        return alt.Scale(type="log", domain=_log_domain(rows))
    high, low = max(row["x"] for row in rows), min(row["x"] for row in rows)
    span = max(high, 0.0) - min(low, 0.0) or 1.0
    return alt.Scale(domain=[min(low, 0.0), max(high, 0.0) + 0.2 * span], nice=False)


def _log_domain(rows: Sequence[Row]) -> list[float]:
    high, low = max(row["x"] for row in rows), min(row["x"] for row in rows)
    span = max(math.log10(high / low), 1.0)
    return [10 ** (math.log10(low) - 0.1 * span), high * 10 ** (0.45 * span)]


def _axis(rows: Sequence[Row], field: str, log: bool, width: int) -> alt.Axis:
    values = sorted({row[field] for row in rows})
    extent = 52 if field == "y" else 0
    if log and len(tick_values := _log_ticks(values)) > 1:
        labels = json.dumps([format_value(tick) for tick in tick_values])
        return alt.Axis(
            values=tick_values,
            # Labels in order; in Vega `datum.index` runs from 0 to 1 over the ticks.
            labelExpr=f"{labels}[round(datum.index * {len(tick_values) - 1})]",
            grid=field == "y",
            labelOverlap="greedy",
            labelSeparation=6,
            domain=False,
            minExtent=extent,
        )
    ticks = max(width // 110, 3) if field == "x" else 6
    return alt.Axis(tickCount=ticks, grid=field == "y", domain=False, minExtent=extent)


def _x_axis(rows: Sequence[Row], log: bool, width: int) -> alt.Axis:
    """One tick per value where x takes few integer values."""
    values = sorted({row["x"] for row in rows})
    if len(values) <= MAX_TICKS and all(isinstance(one, int) for one in values):
        return alt.Axis(values=values, format=",d", grid=False, domain=False)
    return _axis(rows, "x", log, width)


def _log_ticks(values: Sequence[float]) -> list[float]:
    """At most about MAX_TICKS round values for a logarithmic axis."""
    ticks = chart_theme.log_ticks(values[0], values[-1]) if values else []
    return ticks[:: max(-(-len(ticks) // MAX_TICKS), 1)]


def _colour(names: Sequence[str], theme: Theme, legend: alt.Legend) -> alt.Color:
    colours = cycle((theme.model, *theme.baselines, theme.training, theme.quiet))
    return alt.Color(
        "series:N",
        legend=legend if len(names) > 1 else None,
        scale=alt.Scale(domain=list(names), range=list(islice(colours, len(names)))),
    )


def _square_legend(width: int) -> alt.Legend:
    """For bars, which have no stroke."""
    legend = chart_theme.legend(width)
    legend["symbolType"], legend["symbolSize"] = "square", 100
    return legend
