"""Loss curves of a study's variants by steps, tokens and seconds: mean over seeds with a band.

The band spans the minimum and maximum over seeds. Dev loss is dashed, and so are the baselines that
the dev loss is compared with; a run that has not ended is a thin line of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import altair as alt

from regard.evaluation.formatting import number
from regard.reports.charts import theme as chart_theme
from regard.reports.charts.score_dots import Row, with_data
from regard.reports.charts.seed_curves import (
    CurvePoint,
    StepToX,
    aggregate_seeds,
    dev_curve,
    training_curve,
)
from regard.reports.charts.study_charts import display_name, palette
from regard.reports.charts.theme import Chart, Theme
from regard.reports.evidence import Evidence
from regard.runs.results import ScoreRecord

HOVER_STRIPS = 24
"Vertical strips of a chart, each with a tooltip of the losses in it."


def loss_by_step(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """Training and dev loss against steps."""
    return _loss_chart(evidence, lambda step: step.step, "step", theme=theme, size=(width, 320))


def loss_by_tokens(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """The same against training tokens."""
    return _loss_chart(evidence, lambda step: step.tokens, "tokens", theme=theme, size=(width, 240))


def loss_by_seconds(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """The same against training seconds."""
    return _loss_chart(
        evidence, lambda step: step.seconds, "seconds", theme=theme, size=(width, 240)
    )


Curves = Mapping[tuple[str, str], Sequence[CurvePoint]]
"By display name of the variant, and `training` or `dev`."


def _curves(evidence: Evidence, x_of: StepToX) -> dict[tuple[str, str], list[CurvePoint]]:
    curves = {}
    for name, runs in evidence.records.items():
        for loss, curve in (("training", training_curve), ("dev", dev_curve)):
            points = aggregate_seeds([curve(run, x_of) for run in runs.values()])
            if points:
                curves[display_name(evidence, name), loss] = points
    return curves


def _loss_chart(
    evidence: Evidence, x_of: StepToX, unit: str, *, theme: Theme, size: tuple[int, int]
) -> Chart | None:
    curves = _curves(evidence, x_of)
    rows: list[Row] = [
        {"x": p.x, "mean": p.mean, "low": p.low, "high": p.high, "variant": variant, "curve": curve}
        for (variant, curve), points in curves.items()
        for p in points
    ]
    running: list[Row] = [
        {"x": x, "mean": loss, "variant": display_name(evidence, variant), "seed": f"{seed}"}
        for variant, runs in evidence.running.items()
        for seed, record in runs.items()
        for x, loss in training_curve(record, x_of)
        if math.isfinite(loss)
    ]
    if not rows and not running:
        return None
    last = max(row["x"] for row in (*rows, *running))
    title = unit if unit == "step" else f"training {unit}"
    x = alt.X(
        "x:Q", title=title, scale=alt.Scale(domain=[0, last]), axis=chart_theme.step_axis(size[0])
    )
    y = alt.Scale(zero=False)
    colour = alt.Color(
        "variant:N",
        scale=_limit_to_drawn(palette(evidence, theme), [*rows, *running]),
        legend=chart_theme.legend(size[0]),
    )
    base = alt.Chart(alt.NamedData("rows")).encode(x=x, color=colour)
    training = base.transform_filter(alt.FieldEqualPredicate(field="curve", equal="training"))
    dev = base.transform_filter(alt.FieldEqualPredicate(field="curve", equal="dev"))
    level = alt.Y("mean:Q", title=None, scale=y, axis=chart_theme.y_axis())
    strips = alt.Chart(alt.NamedData("strips"))
    levels = [
        {"mean": math.log(score.value), "name": score.of} for score in _dev_baselines(evidence)
    ]
    baselines = alt.Chart(alt.NamedData("baselines")).encode(y=level)
    layers = [  # Vega warns of a layer without data
        *(_baseline_layers(baselines, theme) if levels else []),
        *([_unfinished(x, level, colour)] if running else []),
    ]
    if any(row["curve"] == "training" for row in rows):
        low = alt.Y("low:Q", title=None, scale=y)
        layers += [
            training.mark_area(opacity=0.18).encode(y=low, y2="high:Q"),
            training.mark_line(strokeWidth=1.8).encode(y=level),
        ]
    if any(row["curve"] == "dev" for row in rows):
        layers += [
            dev.mark_line(strokeWidth=1.4, strokeDash=[5, 4]).encode(y=level),
            dev.mark_circle(size=24, opacity=1).encode(y=level),
        ]
    if strip_rows := _strips(curves, last, unit):
        layers.append(
            strips.mark_rect(opacity=0, aria=True).encode(
                x=alt.X("from:Q"), x2="to:Q", description="tooltip:N"
            )
        )
    chart = chart_theme.apply_theme(alt.layer(*layers), theme=theme, size=size)
    return with_data(chart, rows=rows, strips=strip_rows, baselines=levels, running=running)


def _baseline_layers(base: alt.Chart, theme: Theme) -> list[alt.Chart]:
    return [
        base.mark_rule(strokeWidth=1.2, strokeDash=[2, 4], color=theme.quiet),
        base.mark_text(
            align="right", baseline="bottom", dx=-2, dy=-2, fontSize=11, color=theme.quiet
        ).encode(x=alt.value("width"), text="name:N"),
    ]


def _unfinished(x: alt.X, level: alt.Y, colour: alt.Color) -> alt.Chart:
    """A thin line for each run that has not ended."""
    base = alt.Chart(alt.NamedData("running")).mark_line(strokeWidth=0.9, opacity=0.8)
    return base.encode(x=x, y=level, color=colour, detail="seed:N")


def _dev_baselines(evidence: Evidence) -> list[ScoreRecord]:
    """Those whose level on the axis of the dev loss is known: perplexity = exp(loss)."""
    if evidence.other_tokenizers or not evidence.outcome.decides.endswith(".perplexity"):
        return []
    scores = evidence.outcome.baselines
    return [
        one for one in scores if (one.split, one.metric) == ("dev", "perplexity") and one.value > 0
    ]


def _limit_to_drawn(palette: alt.Scale, rows: Sequence[Row]) -> alt.Scale:
    """The palette limited to the drawn variants, so that the legend names no others."""
    drawn = {row["variant"] for row in rows}
    table = palette.to_dict()
    pairs = zip(table["domain"], table["range"], strict=True)
    kept = {name: colour for name, colour in pairs if name in drawn}
    return alt.Scale(domain=list(kept), range=list(kept.values()))


def _strips(curves: Curves, last: float, unit: str) -> list[Row]:
    """The tooltip of each strip: every curve's point closest to its middle."""
    strips = []
    for n in range(HOVER_STRIPS):
        begin, end = last * n / HOVER_STRIPS, last * (n + 1) / HOVER_STRIPS
        lines = []
        for (variant, curve), points in curves.items():
            inside = [point for point in points if begin < point.x <= end]
            if inside:
                nearest = min(inside, key=lambda point: abs(point.x - (begin + end) / 2))
                band = f" ({nearest.low:.3f} to {nearest.high:.3f})"
                lines.append(
                    f"{variant}, {curve}: {nearest.mean:.3f}"
                    + (band if nearest.high > nearest.low else "")
                )
        if lines:
            heading = f"{unit} {number(begin, decimals=0)} to {number(end, decimals=0)}"
            strips.append({"from": begin, "to": end, "tooltip": "\n".join([heading, *lines])})
    return strips
