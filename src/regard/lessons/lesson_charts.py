"""The few pictures that lessons need: curves, bars and maps, each drawn for a theme and a width.

    chart = curves(rows, x="β", y="error", series="keys", log="y")

Rows are plain tables; the names of their columns become the axes' titles. They enter Vega as data
values: field names are our own, so that a name with a dot or a bracket is no expression.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt

from regard.lessons.lesson import Draw
from regard.lessons.number_format import written
from regard.reports.charts import theme as dress
from regard.reports.charts.theme import Chart, Theme

Row = Mapping[str, Any]
MOST_TICKS = 9
NEAR = 0.4
"Share of the largest value below which the smallest comes near nought."


def curves(
    rows: Sequence[Row],
    *,
    x: str,
    y: str,
    series: str | None = None,
    log: Literal["", "x", "y", "xy"] = "",
    level: float | None = None,
    between: Literal["linear", "step"] = "linear",
) -> Draw:
    """Lines with dots; `log` names the logarithmic axes, `level` draws a dashed line, `between`
    says how the line goes from one dot to the next."""
    log_x, log_y = "x" in log, "y" in log
    drawn = _named(rows, x=x, y=y, series=series)
    names = list(dict.fromkeys(row["series"] for row in drawn))
    kept = [row for row in drawn if _drawable(row["x"], log_x) and _drawable(row["y"], log_y)]

    def draw(*, theme: Theme, width: int) -> Chart:
        base = alt.Chart(alt.InlineData(values=kept)).encode(
            x=alt.X("x:Q", title=x, scale=_scale(log_x), axis=_across(kept, log_x, width)),
            y=alt.Y("y:Q", title=y, scale=_level(kept, log_y), axis=_axis(kept, "y", log_y, width)),
            color=_colour(names, theme, dress.legend(width)),
        )
        line = base.mark_line(strokeWidth=1.8, interpolate=between)
        layers = [line, base.mark_circle(size=30, opacity=1)]
        if level is not None:
            held = alt.Chart(alt.InlineData(values=[{"y": level}]))
            layers.append(
                held.mark_rule(strokeDash=[5, 4], color=theme.quiet).encode(y=alt.Y("y:Q"))
            )
        return dress.dressed(alt.layer(*layers), theme=theme, size=(width, 320))

    return draw


def bars(
    rows: Sequence[Row],
    *,
    name: str,
    value: str,
    series: str | None = None,
    scale: Literal["linear", "log"] = "linear",
) -> Draw:
    """A bar for each row, its number at the end; bars of one name stand together."""
    drawn, log = _named(rows, x=value, y=name, series=series), scale == "log"
    for row in drawn:
        row["label"] = written(float(row["x"]))
        # Beside its bar, not on it: a negative bar has its free side at nought.
        row["end"] = row["x"] if log else max(row["x"], 0)
    who = list(dict.fromkeys(row["y"] for row in drawn))
    names = list(dict.fromkeys(row["series"] for row in drawn))
    kept = [row for row in drawn if _drawable(row["x"], log)]

    def draw(*, theme: Theme, width: int) -> Chart:
        room = dress.name_room(who, width=width)
        base = alt.Chart(alt.InlineData(values=kept)).encode(
            x=alt.X(
                "x:Q", title=value, scale=_bar_scale(kept, log), axis=_axis(kept, "x", log, width)
            ),
            y=alt.Y("y:N", sort=who, title=None, axis=dress.name_axis(room)),
            color=_colour(names, theme, _square_legend(width)),
        )
        if len(names) > 1:
            base = base.encode(yOffset=alt.YOffset("series:N", sort=names))
        said = base.mark_text(align="left", dx=5, fontSize=12).encode(
            x=alt.X("end:Q", title=value), text="label:N"
        )
        height = 76 + (26 if len(names) > 1 else 0) + (22 * len(names) + 10) * len(who)
        drawn_bars = base.mark_bar()
        if log and kept:  # a logarithmic axis has no nought for bars to begin at
            drawn_bars = drawn_bars.encode(x2=alt.X2Datum(_log_domain(kept)[0]))
        return dress.dressed(alt.layer(drawn_bars, said), theme=theme, size=(width, height))

    return draw


def heat(
    values: Sequence[Sequence[float]],
    *,
    down: Sequence[str],
    across: Sequence[str],
    title: str,
    axes: tuple[str, str] = ("query", "key"),
) -> Draw:
    """A map, one row for each name of `down`: the stronger the colour, the larger the value."""
    cells: list[dict[str, Any]] = [
        # Numbered, so that two rows or columns of one name stay two.
        {"down": f"{i}", "across": f"{j}", "value": cell, "label": written(float(cell), digits=2)}
        for i, row in enumerate(values)
        for j, cell in enumerate(row)
    ]
    highest = max((cell["value"] for cell in cells), default=1.0) or 1.0
    lowest = min(0.0, *(cell["value"] for cell in cells))

    def draw(*, theme: Theme, width: int) -> Chart:
        shades = alt.Scale(domain=[lowest, highest], range=[theme.grid, theme.model])
        base = alt.Chart(alt.InlineData(values=cells)).encode(
            x=alt.X(
                "across:N",
                sort=None,
                title=axes[1],
                axis=alt.Axis(
                    labelExpr=_labels(across),
                    labelAngle=0 if max(map(len, across)) <= 3 else -45,
                    orient="top",
                    domain=False,
                    ticks=False,
                ),
            ),
            y=alt.Y(
                "down:N",
                sort=None,
                title=axes[0],
                axis=alt.Axis(labelExpr=_labels(down), domain=False, ticks=False),
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
        if len(across) <= (14 if width > 480 else 7):
            strong = alt.datum.value > 0.55 * highest + 0.45 * lowest
            paper = "#ffffff" if theme.name == "light" else "#14171a"
            layers.append(
                base.mark_text(fontSize=11).encode(
                    text="label:N",
                    color=alt.condition(strong, alt.value(paper), alt.value(theme.ink)),
                )
            )
        height = 130 + min(34, 360 // max(len(down), 1)) * len(down)
        return dress.dressed(alt.layer(*layers), theme=theme, size=(width, height))

    return draw


def _labels(names: Sequence[str]) -> str:
    """The names by their number, as a Vega expression: quoted as JSON is, so data stays data."""
    # Vega reads the same strings as JSON; it knows no \u2028 inside one, and neither do names.
    return f"{json.dumps(list(names))}[datum.value]"


def _named(rows: Sequence[Row], *, x: str, y: str, series: str | None) -> list[dict[str, Any]]:
    return [
        {"x": row[x], "y": row[y], "series": "" if series is None else str(row[series])}
        for row in rows
    ]


def _drawable(value: Any, log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not log)


def _scale(log: bool) -> alt.Scale:
    return alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False)


def _level(rows: Sequence[Row], log: bool) -> alt.Scale:
    """Of curves, up: what comes near nought is drawn from nought, or it would look like nought."""
    low, high = (pick((row["y"] for row in rows), default=0.0) for pick in (min, max))
    return alt.Scale(zero=True) if not log and 0 <= low <= NEAR * high else _scale(log)


def _bar_scale(rows: Sequence[Row], log: bool) -> alt.Scale:
    """With room for the numbers at the ends."""
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
    room = 52 if field == "y" else 0
    if log and len(marks := _log_marks(values)) > 1:
        return alt.Axis(
            values=marks,
            labelExpr=_by_number([written(mark) for mark in marks]),
            grid=field == "y",
            labelOverlap="greedy",
            labelSeparation=6,
            domain=False,
            minExtent=room,
        )
    ticks = max(width // 110, 3) if field == "x" else 6
    return alt.Axis(tickCount=ticks, grid=field == "y", domain=False, minExtent=room)


def _across(rows: Sequence[Row], log: bool, width: int) -> alt.Axis:
    """Of curves: where there are few whole numbers, a tick for each and none between them."""
    values = sorted({row["x"] for row in rows})
    if len(values) <= MOST_TICKS and all(isinstance(one, int) for one in values):
        return alt.Axis(values=values, format=",d", grid=False, domain=False)
    return _axis(rows, "x", log, width)


def _log_marks(values: Sequence[float]) -> list[float]:
    """Round values for a logarithmic axis, not too many."""
    marks = dress.magnitudes(values[0], values[-1]) if values else []
    return marks[:: max(-(-len(marks) // MOST_TICKS), 1)]


def _by_number(labels: Sequence[str]) -> str:
    """Labels of the ticks in their order; Vega tells a tick's place from 0 to 1."""
    return f"{json.dumps(list(labels))}[round(datum.index * {len(labels) - 1})]"


def _colour(names: Sequence[str], theme: Theme, legend: alt.Legend) -> alt.Color:
    if len(names) == 1:
        return alt.Color(
            "series:N",
            legend=None,
            scale=alt.Scale(domain=list(names), range=[theme.model]),
        )
    shades = [theme.model, *theme.baselines, theme.training, theme.quiet]
    return alt.Color(
        "series:N",
        legend=legend,
        scale=alt.Scale(
            domain=list(names), range=[shades[n % len(shades)] for n in range(len(names))]
        ),
    )


def _square_legend(width: int) -> alt.Legend:
    """For bars, which have no stroke."""
    legend = dress.legend(width)
    legend["symbolType"], legend["symbolSize"] = "square", 100
    return legend
