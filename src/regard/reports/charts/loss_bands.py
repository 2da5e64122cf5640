"""Loss while variants trained, by steps, tokens and seconds: a mean over seeds in a band of them.

The band goes from the least to the most of the seeds. Dev loss is dashed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from regard.evaluation.formatting import number
from regard.reports.charts import theme as dress
from regard.reports.charts.run_charts import Row
from regard.reports.charts.seed_curves import (
    Across,
    CurvePoint,
    dev_curve,
    over_seeds,
    training_curve,
)
from regard.reports.charts.study_charts import palette, shown_name, with_data
from regard.reports.charts.theme import Chart, Theme
from regard.reports.evidence import Evidence

STRIPS = 24
"Into so many a chart is cut across; each says the losses in it when pointed at."


def loss_by_step(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """Training and dev loss against steps, the seeds as a band."""
    return _loss_chart(evidence, lambda step: step.step, "step", theme=theme, size=(width, 320))


def loss_by_tokens(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """The same against training tokens."""
    return _loss_chart(evidence, lambda step: step.tokens, "tokens", theme=theme, size=(width, 240))


def loss_by_seconds(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """The same against seconds of training."""
    return _loss_chart(
        evidence, lambda step: step.seconds, "seconds", theme=theme, size=(width, 240)
    )


Curves = Mapping[tuple[str, str], Sequence[CurvePoint]]
"By variant as it is shown, and `training` or `dev`."


def _curves(evidence: Evidence, across: Across) -> dict[tuple[str, str], list[CurvePoint]]:
    found = {}
    for name, runs in evidence.records.items():
        for which, curve in (("training", training_curve), ("dev", dev_curve)):
            places = over_seeds([curve(run, across) for run in runs.values()])
            if places:
                found[shown_name(evidence, name), which] = places
    return found


def _loss_chart(
    evidence: Evidence, across: Across, unit: str, *, theme: Theme, size: tuple[int, int]
) -> Chart | None:
    curves = _curves(evidence, across)
    if not curves:
        return None
    rows: list[Row] = [
        {"x": p.x, "mean": p.mean, "low": p.low, "high": p.high, "variant": who, "which": which}
        for (who, which), places in curves.items()
        for p in places
    ]
    last = max(row["x"] for row in rows)
    title = unit if unit == "step" else f"{unit} of training"
    x = alt.X("x:Q", title=title, scale=alt.Scale(domain=[0, last]), axis=dress.step_axis(size[0]))
    y = alt.Scale(zero=False)
    colour = alt.Color(
        "variant:N", scale=_only(palette(evidence, theme), rows), legend=dress.legend(size[0])
    )
    base = alt.Chart(alt.NamedData("rows")).encode(x=x, color=colour)
    training = base.transform_filter(alt.FieldEqualPredicate(field="which", equal="training"))
    dev = base.transform_filter(alt.FieldEqualPredicate(field="which", equal="dev"))
    level = alt.Y("mean:Q", title=None, scale=y, axis=dress.level_axis())
    strips = alt.Chart(alt.NamedData("strips"))
    layers = (
        training.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title=None, scale=y), y2="high:Q"),
        training.mark_line(strokeWidth=1.8).encode(y=level),
        dev.mark_line(strokeWidth=1.4, strokeDash=[5, 4]).encode(y=level),
        dev.mark_circle(size=24, opacity=1).encode(y=level),
        strips.mark_rect(opacity=0, aria=True).encode(
            x=alt.X("from:Q"), x2="to:Q", description="says:N"
        ),
    )
    chart = dress.dressed(alt.layer(*layers), theme=theme, size=size)
    return with_data(chart, rows=rows, strips=_strips(curves, last, unit))


def _only(palette: alt.Scale, rows: Sequence[Row]) -> alt.Scale:
    """The colours of what is drawn, so that the legend names nothing else."""
    drawn = {row["variant"] for row in rows}
    table = palette.to_dict()
    pairs = zip(table["domain"], table["range"], strict=True)
    kept = {name: colour for name, colour in pairs if name in drawn}
    return alt.Scale(domain=list(kept), range=list(kept.values()))


def _strips(curves: Curves, last: float, unit: str) -> list[Row]:
    """What stands in each strip of the chart: the nearest place of every curve that reaches it."""
    strips = []
    for n in range(STRIPS):
        begin, end = last * n / STRIPS, last * (n + 1) / STRIPS
        told = []
        for (who, which), places in curves.items():
            inside = [place for place in places if begin < place.x <= end]
            if inside:
                nearest = min(inside, key=lambda place: abs(place.x - (begin + end) / 2))
                among = f" ({nearest.low:.3f} to {nearest.high:.3f})"
                told.append(
                    f"{who}, {which}: {nearest.mean:.3f}"
                    + (among if nearest.high > nearest.low else "")
                )
        if told:
            where = f"{unit} {number(begin, decimals=0)} to {number(end, decimals=0)}"
            strips.append({"from": begin, "to": end, "says": "\n".join([where, *told])})
    return strips
