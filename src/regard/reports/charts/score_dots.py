"""Scores with intervals, of a run or of a study: a dot for the score, a bar for the interval.

Shared by `run_charts` and `study_charts`; rows that have a `tooltip` show it on hover.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import altair as alt

from regard.evaluation.formatting import Score, metric_label, number, order_splits, split_label
from regard.evaluation.metrics.metric import is_lower_better
from regard.reports.charts import theme as chart_theme
from regard.reports.charts.theme import Chart, Theme

Row: TypeAlias = dict[str, Any]

ENDS = ("low", "value", "high")


def score_row(of: str, split: str, metric: str, score: Score) -> Row:
    """A score as a row of data; both ends of a missing interval are the value."""
    value = score.value
    return {
        "of": of,
        "split": split,
        "split_label": split_label(split),
        "metric": metric,
        "value": value,
        "low": value if score.low is None else score.low,
        "high": value if score.high is None else score.high,
        "label": f"{number(value)}  {split}",
    }


def is_drawable(row: Row) -> bool:
    """Finite, and positive where lower is better: that axis is logarithmic."""
    bound = 0.0 if is_lower_better(row["metric"]) else -math.inf
    return all(math.isfinite(row[end]) and row[end] > bound for end in ENDS)


def draw_scores(
    rows: Sequence[Row], *, lower_is_better: bool, colours: alt.Scale, theme: Theme, width: int
) -> Chart:
    """Scores of one metric on one axis, a line for each owner and split."""
    names = chart_theme.name_width([row["of"] for row in rows], width=width)
    labels = chart_theme.label_width((row["label"] for row in rows), width=width - names)
    scale, ticks = score_scale(
        rows, label_fraction=labels / (width - names), is_logarithmic=lower_is_better
    )
    axis = chart_theme.log_axis(ticks) if ticks else chart_theme.value_axis(width - names)
    metric = rows[0]["metric"]
    title = f"{metric_label(metric)}, {better_side(lower_is_better=lower_is_better)} is better"
    base = alt.Chart(alt.NamedData("rows")).encode(
        **row_channels(rows, names), color=alt.Color("of:N", legend=None, scale=colours)
    )
    aria, hover = _hover(rows)
    layers = (
        base.mark_circle(size=30, opacity=1, **aria).encode(
            x=alt.X("value:Q", scale=scale, title=title, axis=axis), **hover
        ),
        base.mark_rule(strokeWidth=7, opacity=0.35, **aria).encode(x="low:Q", x2="high:Q", **hover),
        base.mark_text(align="left", dx=9, fontSize=12, limit=labels - 9).encode(
            x="high:Q", text="label:N"
        ),
    )
    size = (width, 60 + 28 * len(rows))
    return with_data(chart_theme.apply_theme(alt.layer(*layers), theme=theme, size=size), rows=rows)


def draw_length_scores(
    rows: Sequence[Row], *, metric: str, theme: Theme, size: tuple[int, int], **channels: Any
) -> Chart:
    """Scores by source length; `channels` place and colour those of several owners."""
    order = list(dict.fromkeys(row["words"] for row in rows))
    x = alt.X("words:N", sort=order, title="source length in words", axis=alt.Axis(labelAngle=0))
    base = alt.Chart(alt.NamedData("rows")).encode(x=x, **channels)
    aria, hover = _hover(rows)
    layers = (
        base.mark_rule(strokeWidth=7, opacity=0.35, **aria).encode(
            y=alt.Y("low:Q", title=metric_label(metric)), y2="high:Q", **hover
        ),
        base.mark_circle(size=40, opacity=1, **aria).encode(
            y=alt.Y("value:Q", title=metric_label(metric), scale=alt.Scale(zero=True)), **hover
        ),
    )
    return with_data(chart_theme.apply_theme(alt.layer(*layers), theme=theme, size=size), rows=rows)


def row_channels(rows: Sequence[Row], names: int) -> dict[str, Any]:
    """A line for each owner, its splits below one another; names in `names` pixels."""
    owners = list(dict.fromkeys(row["of"] for row in rows))
    splits = [split_label(name) for name in order_splits(row["split"] for row in rows)]
    return {
        "y": alt.Y("of:N", sort=owners, title=None, axis=chart_theme.name_axis(names)),
        "yOffset": alt.YOffset("split_label:N", sort=splits),
    }


def score_scale(
    rows: Sequence[Row], *, label_fraction: float, is_logarithmic: bool
) -> tuple[alt.Scale, list[float]]:
    """Logarithmic, if it may be, where scores differ by factors; `label_fraction` of the axis is
    for labels."""
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    before, after = 0.06, label_fraction / (1 - label_fraction)
    if low > 0 and high > 3 * low and is_logarithmic:
        ratio = high / low
        domain = [low / ratio**before, high * ratio**after]
        return alt.Scale(type="log", domain=domain, nice=False), chart_theme.log_ticks(*domain)
    span = high - low or 0.1 * high
    domain = [low - before * span, high + after * span]
    return alt.Scale(zero=False, domain=domain, nice=False), []


def better_side(*, lower_is_better: bool) -> str:
    """The better side of an axis of a metric or of differences in it."""
    return "left" if lower_is_better else "right"


def with_data(chart: Chart, **datasets: Sequence[Row]) -> Chart:
    """The chart with its named datasets; attached last, because Altair copies what it holds."""
    chart["datasets"] = {name: list(rows) for name, rows in datasets.items()}
    return chart


def _hover(rows: Sequence[Row]) -> tuple[dict[str, bool], dict[str, str]]:
    """Properties and channels of marks that show the tooltips of their rows; none without any."""
    return ({"aria": True}, {"description": "tooltip:N"}) if "tooltip" in rows[0] else ({}, {})
