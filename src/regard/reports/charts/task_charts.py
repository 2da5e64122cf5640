"""Charts of a task's extra tables: F1 by threshold, risk and coverage, calibration, score by
length. A chart is None if the run has no such table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from regard.reports.charts import theme as chart_theme
from regard.reports.charts.score_dots import Row, draw_length_scores
from regard.reports.charts.theme import Chart, Theme
from regard.runs.archive.record import RunRecord


def threshold_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """F1 on dev against the threshold τ: the model answers where best ≥ null + τ."""
    rows = _rows(record, "f1_by_threshold", "tau", "f1")
    if len(rows) < 2:
        return None
    best = max(rows, key=lambda row: float(row["f1"]))
    base = alt.Chart(alt.InlineData(values=rows))
    line = base.mark_line(strokeWidth=1.8, color=theme.quiet).encode(
        x=alt.X("tau:Q", title="τ", scale=alt.Scale(nice=False), axis=chart_theme.step_axis(width)),
        y=alt.Y("f1:Q", title=None, scale=alt.Scale(zero=False), axis=chart_theme.y_axis()),
    )
    mark = (
        alt.Chart(alt.InlineData(values=[best]))
        .mark_circle(size=60, opacity=1)
        .encode(x="tau:Q", y="f1:Q")
    )
    return chart_theme.apply_theme(alt.layer(line, mark), theme=theme, size=(width, 220))


def risk_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """Error rate of the answered questions against the fraction that is answered."""
    rows = _rows(record, "risk_coverage", "coverage", "risk")
    if len(rows) < 2:
        return None
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=alt.X(
                "coverage:Q",
                title="fraction of questions answered, most confident first",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format=".0%", grid=False),
            ),
            y=alt.Y("risk:Q", title=None, axis=chart_theme.y_axis(format=".0%")),
            color=_split_colour(rows, theme=theme, width=width),
        )
    )
    return chart_theme.apply_theme(chart, theme=theme, size=(width, 260))


def calibration_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """Accuracy against confidence; on the dashed line the model is calibrated."""
    rows = [row for row in _rows(record, "calibration", "confidence", "accuracy") if row["n"]]
    if not rows:
        return None
    x = alt.X(
        "confidence:Q",
        title="confidence",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format=".0%", grid=False),
    )
    y = alt.Y(
        "accuracy:Q",
        title=None,
        scale=alt.Scale(domain=[0, 1]),
        axis=chart_theme.y_axis(format=".0%"),
    )
    diagonal = (
        alt.Chart(
            alt.InlineData(
                values=[{"confidence": 0, "accuracy": 0}, {"confidence": 1, "accuracy": 1}]
            )
        )
        .mark_line(strokeDash=[5, 4], strokeWidth=1, color=theme.quiet)
        .encode(x=x, y=y)
    )
    measured = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True, strokeWidth=1.5)
        .encode(
            x=x,
            y=y,
            color=_split_colour(rows, theme=theme, width=width),
        )
    )
    return chart_theme.apply_theme(alt.layer(diagonal, measured), theme=theme, size=(width, 260))


def length_score_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """The main metric on test by source length, with intervals."""
    main = record.results.main if record.results else ""
    rows = length_scores(record, main)
    if not rows:
        return None
    return draw_length_scores(rows, metric=main, theme=theme, size=(width, 260))


def length_scores(record: RunRecord, metric_name: str) -> list[Row]:
    """A metric on test by source length, shortest first."""
    return [
        row
        for row in _rows(record, "by source length", "value")
        if row["metric"] == metric_name and row["split"] == "test"
    ]


def _split_colour(rows: Sequence[Row], *, theme: Theme, width: int) -> alt.Color:
    splits = sorted({row["split"] for row in rows})
    legend = chart_theme.legend(width)
    return alt.Color("split:N", scale=theme.palette(splits), legend=legend, sort=splits)


def _rows(record: RunRecord, table: str, *columns: str) -> list[Row]:
    """The rows of a table with finite numbers in these columns."""
    tables = record.results.tables if record.results else {}
    return [dict(row) for row in tables.get(table, ()) if _is_finite(row, columns)]


def _is_finite(row: Mapping[str, Any], columns: Sequence[str]) -> bool:
    return all(
        isinstance(row.get(name), int | float) and math.isfinite(row[name]) for name in columns
    )
