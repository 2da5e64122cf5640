"""Charts of what a task keeps in small tables: a threshold's curve, risk against coverage,
calibration, a score by length. What a run has no table for is not drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from regard.evaluation.formatting import metric_label, quantity
from regard.reports.charts import theme as dress
from regard.reports.charts.theme import Chart, Theme
from regard.runs.archive.record import RunRecord

Row = dict[str, Any]


def threshold_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """F1 on dev against the threshold τ: an answer is given where best ≥ null + τ."""
    rows = _rows(record, "f1_by_threshold", "tau", "f1")
    if len(rows) < 2:
        return None
    best = max(rows, key=lambda row: float(row["f1"]))
    base = alt.Chart(alt.InlineData(values=rows))
    line = base.mark_line(strokeWidth=1.8, color=theme.quiet).encode(
        x=alt.X("tau:Q", title="τ", scale=alt.Scale(nice=False), axis=dress.step_axis(width)),
        y=alt.Y("f1:Q", title=None, scale=alt.Scale(zero=False), axis=dress.level_axis()),
    )
    mark = (
        alt.Chart(alt.InlineData(values=[best]))
        .mark_circle(size=60, opacity=1)
        .encode(x="tau:Q", y="f1:Q")
    )
    return dress.dressed(alt.layer(line, mark), theme=theme, size=(width, 220))


def risk_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """The share of wrong answers among those given, against the share that are given."""
    rows = _rows(record, "risk_coverage", "coverage", "risk")
    if len(rows) < 2:
        return None
    parts = sorted({row["part"] for row in rows})
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=alt.X(
                "coverage:Q",
                title="share of questions answered, the surest first",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format=".0%", grid=False),
            ),
            y=alt.Y("risk:Q", title=None, axis=dress.level_axis(format=".0%")),
            color=alt.Color(
                "part:N", scale=theme.palette(parts), legend=dress.legend(width), sort=parts
            ),
        )
    )
    return dress.dressed(chart, theme=theme, size=(width, 260))


def calibration_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """How often answers of each confidence are right; on the dashed line it means what it says."""
    rows = [row for row in _rows(record, "calibration", "confidence", "accuracy") if row["n"]]
    if not rows:
        return None
    parts = sorted({row["part"] for row in rows})
    across = alt.X(
        "confidence:Q",
        title="confidence",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format=".0%", grid=False),
    )
    up = alt.Y(
        "accuracy:Q",
        title=None,
        scale=alt.Scale(domain=[0, 1]),
        axis=dress.level_axis(format=".0%"),
    )
    exact = (
        alt.Chart(
            alt.InlineData(
                values=[{"confidence": 0, "accuracy": 0}, {"confidence": 1, "accuracy": 1}]
            )
        )
        .mark_line(strokeDash=[5, 4], strokeWidth=1, color=theme.quiet)
        .encode(x=across, y=up)
    )
    seen = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True, strokeWidth=1.5)
        .encode(
            x=across,
            y=up,
            color=alt.Color(
                "part:N", scale=theme.palette(parts), legend=dress.legend(width), sort=parts
            ),
        )
    )
    return dress.dressed(alt.layer(exact, seen), theme=theme, size=(width, 260))


def length_score_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """The main metric on test by the length of the source, each with its interval."""
    main = record.figures.main if record.figures else ""
    rows = [
        row | {"label": quantity(row["n"], row["items"])} for row in length_scores(record, main)
    ]
    if not rows:
        return None
    order = [row["words"] for row in rows]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("words:N", sort=order, title="words of the source", axis=alt.Axis(labelAngle=0))
    )
    up = alt.Y("value:Q", title=metric_label(main), scale=alt.Scale(zero=True))
    chart = alt.layer(
        base.mark_rule(strokeWidth=7, opacity=0.35).encode(
            y=alt.Y("low:Q", title=metric_label(main)), y2="high:Q"
        ),
        base.mark_circle(size=40, opacity=1).encode(y=up),
    )
    return dress.dressed(chart, theme=theme, size=(width, 260))


def length_scores(record: RunRecord, metric_name: str) -> list[Row]:
    """A metric on test by the length of the source, the shortest first."""
    return [
        row
        for row in _rows(record, "by source length", "value")
        if row["metric"] == metric_name and row["part"] == "test"
    ]


def _rows(record: RunRecord, table: str, *numbers: str) -> list[Row]:
    """The lines of a table in which these are numbers that can be drawn."""
    tables = record.figures.tables if record.figures else {}
    return [row for row in tables.get(table, ()) if _drawable(row, numbers)]


def _drawable(row: Row, numbers: Sequence[str]) -> bool:
    return all(
        isinstance(row.get(name), int | float) and math.isfinite(row[name]) for name in numbers
    )
