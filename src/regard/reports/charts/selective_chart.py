"""The risk–coverage curve of a run's answers on dev, with intervals and a threshold."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from regard.evaluation.metrics.risk_coverage import OperatingPoint
from regard.reports.charts import theme as chart_theme
from regard.reports.charts.theme import Chart, Theme

HEIGHT = 280


def selective_chart(
    points: Sequence[OperatingPoint],
    chosen: OperatingPoint | None,
    *,
    theme: Theme,
    width: int,
) -> Chart | None:
    """Risk against coverage, 95 % intervals as a band, the chosen threshold as a dot."""
    if not points:
        return None
    x = alt.X(
        "coverage:Q",
        title="answered, the most confident first",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format=".0%", grid=False),
    )
    y = alt.Y("risk:Q", title="wrong of these", axis=chart_theme.y_axis(format=".0%"))
    base = alt.Chart(alt.InlineData(values=[_row(point) for point in points])).encode(x=x)
    layers = [
        base.mark_area(color=theme.model, opacity=0.16).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(color=theme.model, strokeWidth=2).encode(y=y),
    ]
    if chosen is not None:
        dot = alt.Chart(alt.InlineData(values=[_row(chosen)])).encode(x=x)
        layers.append(dot.mark_rule(color=theme.quiet, strokeDash=[4, 4]))
        layers.append(dot.mark_point(color=theme.test, filled=True, size=90, opacity=1).encode(y=y))
    return chart_theme.apply_theme(alt.layer(*layers), theme=theme, size=(width, HEIGHT))


def _row(point: OperatingPoint) -> dict[str, float | int | None]:
    return {
        "threshold": point.threshold,
        "coverage": point.coverage.value,
        "risk": point.risk.value,
        "low": point.risk.low,
        "high": point.risk.high,
        "answered": point.risk.n,
    }
