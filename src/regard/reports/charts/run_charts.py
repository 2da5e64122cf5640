"""Charts of a run: from a record to an Altair chart, and from a chart to SVG or PNG.

Each function takes the theme and the total width in pixels, so that a page can have light and dark,
wide and narrow versions; it returns None if the record has nothing to draw. Text from data enters
as data values only, never as a Vega expression or field name, and Vega escapes it in the SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import altair as alt
import vl_convert

from regard.data.statistics import LengthHistogram
from regard.evaluation.metrics.metric import is_lower_better
from regard.reports.charts import theme as chart_theme
from regard.reports.charts.drawing import check_drawing
from regard.reports.charts.score_dots import Row, draw_scores, is_drawable, score_row
from regard.reports.charts.theme import Chart, Theme
from regard.runs.archive.record import RunRecord
from regard.runs.results import MODEL, ScoreRecord
from regard.training.events import StepEvent

MAX_POINTS = 500
"Maximum points of a curve; more are invisible and make the page large."

Event = TypeVar("Event")


def interval_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """The main metric of model and baselines on one axis: a dot for the score, a bar for its
    interval."""
    rows = [_row(score) for score in held_out_scores(record)]
    if not rows:
        return None
    colours = theme.palette(dict.fromkeys(row["of"] for row in rows))
    return draw_scores(
        rows,
        lower_is_better=is_lower_better(rows[0]["metric"]),
        colours=colours,
        theme=theme,
        width=width,
    )


def loss_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """Training loss, dev loss and the baselines' dev loss against steps."""
    curves = _loss_curves(record)
    rows = [row for points in curves.values() for row in points]
    if not rows:
        return None
    names, last = list(curves), max(row["step"] for row in rows)
    dashes = [[1, 0] if name in CURVES else [5, 4] for name in names]
    legend = chart_theme.legend(width)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            "step:Q",
            title="step",
            scale=alt.Scale(domain=[0, last]),
            axis=chart_theme.step_axis(width),
        ),
        y=alt.Y("loss:Q", title=None, scale=alt.Scale(zero=False), axis=chart_theme.y_axis()),
        color=alt.Color("series:N", scale=theme.palette(names), legend=legend),
    )
    lines = base.mark_line(strokeWidth=1.8).encode(
        strokeDash=alt.StrokeDash(
            "series:N", scale=alt.Scale(domain=names, range=dashes), legend=legend
        )
    )
    is_dev = alt.FieldEqualPredicate(field="series", equal="dev loss")
    dots = base.mark_circle(size=30, opacity=1).transform_filter(is_dev)
    return chart_theme.apply_theme(alt.layer(lines, dots), theme=theme, size=(width, 340))


def compared_losses(records: Mapping[str, RunRecord], *, theme: Theme, width: int) -> Chart | None:
    """Training and dev loss of several runs against steps, by name; the dev loss is dashed."""
    rows = [
        {"step": step, "loss": loss, "run": name, "curve": curve}
        for name, record in records.items()
        for curve, points in (
            ("training", [(one.step, one.loss) for one in window_means(record.events.steps)]),
            ("dev", [(one.step, one.loss) for one in subsample(record.events.evaluations)]),
        )
        for step, loss in points
        if math.isfinite(loss)
    ]
    if not rows:
        return None
    names, colours = list(records), (theme.model, *theme.baselines)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("step:Q", title="step", axis=chart_theme.step_axis(width)),
        y=alt.Y("loss:Q", title=None, scale=alt.Scale(zero=False), axis=chart_theme.y_axis()),
        color=alt.Color(
            "run:N",
            scale=alt.Scale(domain=names, range=list(colours[: len(names)])),
            legend=chart_theme.legend(width),
        ),
    )
    training = base.transform_filter(alt.FieldEqualPredicate(field="curve", equal="training"))
    dev = base.transform_filter(alt.FieldEqualPredicate(field="curve", equal="dev"))
    layers = (
        training.mark_line(strokeWidth=1.6),
        dev.mark_line(strokeWidth=1.4, strokeDash=[5, 4]),
        dev.mark_circle(size=24, opacity=1),
    )
    return chart_theme.apply_theme(alt.layer(*layers), theme=theme, size=(width, 340))


def learning_rate_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """The learning rate against steps, a small chart below the loss."""
    steps = [s for s in subsample(record.events.steps) if s.lr is not None and math.isfinite(s.lr)]
    if len(steps) < 2:
        return None
    rows = [{"step": step.step, "lr": step.lr} for step in steps]
    x_scale = alt.Scale(domain=[0, rows[-1]["step"]])
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.8, color=theme.quiet)
        .encode(
            x=alt.X("step:Q", title=None, scale=x_scale, axis=chart_theme.step_axis(width)),
            y=alt.Y("lr:Q", title=None, axis=chart_theme.y_axis(ticks=2, format="~g")),
        )
    )
    return chart_theme.apply_theme(chart, theme=theme, size=(width, 100))


def length_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """Document lengths of each split: the fraction of its documents in each bin."""
    corpus = record.results.corpus if record.results else None
    histograms = {name: corpus.splits[name].histogram for name in corpus.splits} if corpus else {}
    outlines = {name: histogram_outline(h) for name, h in histograms.items() if h and sum(h.counts)}
    if not outlines:
        return None
    rows = [
        {"length": length, "fraction": fraction, "split": name}
        for name, points in outlines.items()
        for length, fraction in points
    ]
    scale, ticks = _length_scale(histograms.values())
    axis = chart_theme.step_axis(width)
    if ticks:
        axis = chart_theme.log_axis(ticks, grid=False)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("length:Q", title="tokens in a document", scale=scale, axis=axis),
        y=alt.Y(
            "fraction:Q", title=None, stack=None, axis=chart_theme.y_axis(ticks=4, format="~%")
        ),
        color=alt.Color("split:N", scale=theme.palette(outlines), legend=chart_theme.legend(width)),
    )
    lines = base.mark_line(interpolate="step-after", strokeWidth=1.8)
    is_train = alt.FieldEqualPredicate(field="split", equal="train")
    fill = base.mark_area(interpolate="step-after", opacity=0.18).transform_filter(is_train)
    return chart_theme.apply_theme(alt.layer(fill, lines), theme=theme, size=(width, 260))


def to_svg(chart: Chart) -> str:
    """The chart as one `<to_svg>` element, drawn with no network."""
    check_drawing()
    drawn: str = vl_convert.vegalite_to_svg(chart.to_json(validate=False), **_CONVERSION)
    return drawn


def to_png(chart: Chart, *, scale: float = 2.0) -> bytes:
    """The chart as PNG, `scale` pixels per chart pixel."""
    check_drawing()
    drawn: bytes = vl_convert.vegalite_to_png(chart.to_json(), scale=scale, **_CONVERSION)
    return drawn


_CONVERSION: dict[str, Any] = {
    # "v6.4.1" → "6.4": render with the Vega-Lite version that Altair writes.
    "vl_version": alt.SCHEMA_VERSION.lstrip("v").rpartition(".")[0],
    "allowed_base_urls": [],
}

CURVES = ("training loss", "dev loss")


def held_out_scores(record: RunRecord) -> list[ScoreRecord]:
    """The main metric on all splits but train, model first, without scores that cannot be drawn."""
    if record.results is None:
        return []
    drawable = [
        score
        for score in record.results.estimates
        if score.metric == record.results.main and score.split != "train"
        if is_drawable(_row(score))
    ]
    return sorted(drawable, key=lambda score: score.of != MODEL)


def dev_baselines(record: RunRecord) -> list[ScoreRecord]:
    """Baselines on dev, for comparison with the dev loss during training."""
    held_out = held_out_scores(record)
    if record.results is None or record.results.main != "perplexity":
        return []
    return [score for score in held_out if score.split == "dev" and score.of != MODEL]


def window_means(steps: Sequence[StepEvent], max_points: int = MAX_POINTS) -> list[StepEvent]:
    """At most `max_points` steps, each with the mean loss since the previous one.

    Averaged, not subsampled: a subsampled loss would let a short window represent a long one.
    """
    size = max(-(-len(steps) // max_points), 1)
    lengths = [after - before for before, after in pairwise([0, *(step.step for step in steps)])]
    means = []
    for start in range(0, len(steps), size):
        group, weights = steps[start : start + size], lengths[start : start + size]
        total = sum(step.loss * weight for step, weight in zip(group, weights, strict=True))
        mean = total / sum(weights) if sum(weights) else group[-1].loss
        means.append(group[-1].model_copy(update={"loss": mean}))
    return means


def subsample(events: Sequence[Event], max_points: int = MAX_POINTS) -> list[Event]:
    """At most `max_points` events, evenly spaced, always with the last."""
    stride = max(-(-len(events) // max_points), 1)
    return list(events[::-1][::stride][::-1])


def histogram_outline(histogram: LengthHistogram) -> list[tuple[float, float]]:
    """The steps of a histogram as fractions of its total, starting and ending at zero."""
    total = sum(histogram.counts)
    fractions = [count / total for count in histogram.counts]
    first, last = histogram.edges[0], histogram.edges[-1]
    return [(first, 0.0), *zip(histogram.edges, fractions, strict=False), (last, 0.0)]


def _row(score: ScoreRecord) -> Row:
    return score_row(score.of, score.split, score.metric, score)


def _loss_curves(record: RunRecord) -> dict[str, list[Row]]:
    training, dev = CURVES
    curves = {
        training: [(step.step, step.loss) for step in window_means(record.events.steps)],
        dev: [(event.step, event.loss) for event in subsample(record.events.evaluations)],
    }
    last = max((step for points in curves.values() for step, _ in points), default=0)
    for score in dev_baselines(record) if last else ():
        level = math.log(score.value)  # perplexity = exp(loss)
        curves[score.of] = [(0, level), (last, level)]
    drawn = {
        name: [
            {"step": step, "loss": loss, "series": name}
            for step, loss in points
            if math.isfinite(loss)
        ]
        for name, points in curves.items()
    }
    return {name: rows for name, rows in drawn.items() if rows}


def _length_scale(histograms: Iterable[LengthHistogram | None]) -> tuple[alt.Scale, list[float]]:
    """Logarithmic where bins grow, so that all are drawn equally wide."""
    edges = sorted({edge for h in histograms if h for edge in h.edges})
    if len(edges) < 3 or edges[-1] - edges[-2] <= 2 * (edges[1] - edges[0]):
        return alt.Scale(nice=False, zero=False), []
    ticks = chart_theme.log_ticks(max(edges[0], 1.0), edges[-1])
    # symlog, because the first edge may be 0: linear below 1, logarithmic above.
    return alt.Scale(type="symlog", constant=1, nice=False, zero=False), ticks
