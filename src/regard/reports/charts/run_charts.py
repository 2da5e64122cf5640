"""The pictures of a run: a record becomes an Altair chart, and a chart becomes SVG or PNG.

Each chart takes the theme and the whole width in pixels, so that a page can show a light and a
dark, a wide and a narrow one; it is None where the record has nothing to draw. Text from data
enters as data values only, never as a Vega expression or a field name, and Vega escapes it in the
SVG it writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import altair as alt
import vl_convert

from regard.evaluation.formatting import metric_label, number, order_splits, split_label
from regard.evaluation.metrics.metric import LOWER_IS_BETTER
from regard.reports.charts import theme as dress
from regard.reports.charts.theme import Chart, Theme
from regard.runs.archive.record import MODEL, HistogramRecord, RunRecord, ScoreRecord, StepEvent

MOST_POINTS = 500
"A curve has no more points than this: the eye sees no others, and the page stays small."

Row = dict[str, Any]
Event = TypeVar("Event")


def interval_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """What model and baselines are judged by, on one axis: a dot on a bar, its interval."""
    rows = [_interval_row(figure) for figure in held_out_figures(record)]
    if not rows:
        return None
    who = list(dict.fromkeys(row["of"] for row in rows))
    parts = [split_label(name) for name in order_splits(row["named"] for row in rows)]
    names = dress.name_room(who, width=width)
    labels = dress.label_room((row["label"] for row in rows), width=width - names)
    scale, ticks = figure_scale(rows, label_room=labels / (width - names))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("of:N", sort=who, title=None, axis=dress.name_axis(names)),
        yOffset=alt.YOffset("part:N", sort=parts),
        color=alt.Color("of:N", legend=None, scale=theme.palette(who)),
    )
    axis = dress.magnitude_axis(ticks) if ticks else dress.value_axis(width - names)
    name = rows[0]["metric"]
    better = "left" if name in LOWER_IS_BETTER else "right"
    title = f"{metric_label(name)}, {better} is better"
    chart = alt.layer(
        base.mark_circle(size=30, opacity=1).encode(
            x=alt.X("value:Q", scale=scale, title=title, axis=axis)
        ),
        base.mark_rule(strokeWidth=7, opacity=0.35).encode(x="low:Q", x2="high:Q"),
        base.mark_text(align="left", dx=9, fontSize=12, limit=labels - 9).encode(
            x="high:Q", text="label:N"
        ),
    )
    return dress.dressed(chart, theme=theme, size=(width, 60 + 28 * len(rows)))


def loss_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """Training loss, dev loss and the baselines' dev loss against steps."""
    curves = _loss_curves(record)
    rows = [row for points in curves.values() for row in points]
    if not rows:
        return None
    names, last = list(curves), max(row["step"] for row in rows)
    dashes = [[1, 0] if name in CURVES else [5, 4] for name in names]
    legend = dress.legend(width)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            "step:Q", title="step", scale=alt.Scale(domain=[0, last]), axis=dress.step_axis(width)
        ),
        y=alt.Y("loss:Q", title=None, scale=alt.Scale(zero=False), axis=dress.level_axis()),
        color=alt.Color("series:N", scale=theme.palette(names), legend=legend),
    )
    lines = base.mark_line(strokeWidth=1.8).encode(
        strokeDash=alt.StrokeDash(
            "series:N", scale=alt.Scale(domain=names, range=dashes), legend=legend
        )
    )
    measured = alt.FieldEqualPredicate(field="series", equal="dev loss")
    dots = base.mark_circle(size=30, opacity=1).transform_filter(measured)
    return dress.dressed(alt.layer(lines, dots), theme=theme, size=(width, 340))


def learning_rate_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """The learning rate against steps, small, to stand under the loss."""
    steps = [s for s in thinned(record.events.steps) if s.lr is not None and math.isfinite(s.lr)]
    if len(steps) < 2:
        return None
    rows = [{"step": step.step, "lr": step.lr} for step in steps]
    across = alt.Scale(domain=[0, rows[-1]["step"]])
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.8, color=theme.quiet)
        .encode(
            x=alt.X("step:Q", title=None, scale=across, axis=dress.step_axis(width)),
            y=alt.Y("lr:Q", title=None, axis=dress.level_axis(ticks=2, format="~g")),
        )
    )
    return dress.dressed(chart, theme=theme, size=(width, 100))


def length_chart(record: RunRecord, *, theme: Theme, width: int) -> Chart | None:
    """How long the documents of each part are: the share of its documents in each bin."""
    corpus = record.figures.corpus if record.figures else None
    found = {name: corpus.splits[name].histogram for name in corpus.splits} if corpus else {}
    outlines = {name: outline(h) for name, h in found.items() if h and sum(h.counts)}
    if not outlines:
        return None
    rows = [
        {"length": length, "share": share, "part": name}
        for name, points in outlines.items()
        for length, share in points
    ]
    scale, ticks = _length_scale(found.values())
    axis = dress.step_axis(width)
    if ticks:
        axis = dress.magnitude_axis(ticks, grid=False)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("length:Q", title="tokens in a document", scale=scale, axis=axis),
        y=alt.Y("share:Q", title=None, stack=None, axis=dress.level_axis(ticks=4, format="~%")),
        color=alt.Color("part:N", scale=theme.palette(outlines), legend=dress.legend(width)),
    )
    lines = base.mark_line(interpolate="step-after", strokeWidth=1.8)
    in_training = alt.FieldEqualPredicate(field="part", equal="train")
    fill = base.mark_area(interpolate="step-after", opacity=0.18).transform_filter(in_training)
    return dress.dressed(alt.layer(fill, lines), theme=theme, size=(width, 260))


def svg(chart: Chart) -> str:
    """The chart as one `<svg>` element, drawn with no network."""
    drawn: str = vl_convert.vegalite_to_svg(chart.to_json(validate=False), **_CONVERSION)
    return drawn


def png(chart: Chart, *, scale: float = 2.0) -> bytes:
    """The chart as a PNG image with `scale` pixels for each of its own."""
    drawn: bytes = vl_convert.vegalite_to_png(chart.to_json(), scale=scale, **_CONVERSION)
    return drawn


_CONVERSION: dict[str, Any] = {
    # "v6.4.1" → "6.4": the Vega-Lite that Altair writes is the one that draws.
    "vl_version": alt.SCHEMA_VERSION.lstrip("v").rpartition(".")[0],
    "allowed_base_urls": [],
}

CURVES = ("training loss", "dev loss")


def held_out_figures(record: RunRecord) -> list[ScoreRecord]:
    """The main metric off the training set, model first, where it can be drawn: a perplexity has
    to have a logarithm, others to be finite."""
    if record.figures is None:
        return []
    main = record.figures.main
    lowest = 0.0 if main in LOWER_IS_BETTER else -math.inf
    drawable = [
        figure
        for figure in record.figures.figures
        if figure.metric == main and figure.part != "train"
        if all(math.isfinite(end) and end > lowest for end in _ends(figure))
    ]
    return sorted(drawable, key=lambda figure: figure.of != MODEL)


def dev_baselines(record: RunRecord) -> list[ScoreRecord]:
    """The baselines that the dev loss can be held against while the model trains."""
    held_out = held_out_figures(record)
    if record.figures is None or record.figures.main != "perplexity":
        return []
    return [figure for figure in held_out if figure.part == "dev" and figure.of != MODEL]


def window_means(steps: Sequence[StepEvent], most: int = MOST_POINTS) -> list[StepEvent]:
    """At most `most` steps, each with the mean loss over all steps since the one before it.

    Averaged, not picked: a picked loss would let a short window stand for a long one.
    """
    size = max(-(-len(steps) // most), 1)
    lengths = [after - before for before, after in pairwise([0, *(step.step for step in steps)])]
    means = []
    for start in range(0, len(steps), size):
        group, weights = steps[start : start + size], lengths[start : start + size]
        total = sum(step.loss * weight for step, weight in zip(group, weights, strict=True))
        mean = total / sum(weights) if sum(weights) else group[-1].loss
        means.append(group[-1].model_copy(update={"loss": mean}))
    return means


def thinned(events: Sequence[Event], most: int = MOST_POINTS) -> list[Event]:
    """At most `most` events, evenly spaced; the last is always among them."""
    stride = max(-(-len(events) // most), 1)
    return list(events[::-1][::stride][::-1])


def outline(histogram: HistogramRecord) -> list[tuple[float, float]]:
    """The steps of a histogram in shares of its total, from and back to the ground."""
    total = sum(histogram.counts)
    shares = [count / total for count in histogram.counts]
    first, last = histogram.edges[0], histogram.edges[-1]
    return [(first, 0.0), *zip(histogram.edges, shares, strict=False), (last, 0.0)]


def _ends(figure: ScoreRecord) -> tuple[float, float, float]:
    low = figure.value if figure.low is None else figure.low
    high = figure.value if figure.high is None else figure.high
    return low, figure.value, high


def _interval_row(figure: ScoreRecord) -> Row:
    low, value, high = _ends(figure)
    label = f"{number(value)}  {figure.part}"
    ends = {"low": low, "value": value, "high": high}
    names = {"of": figure.of, "part": split_label(figure.part), "named": figure.part}
    names["metric"] = figure.metric
    return {**names, "label": label, **ends}


def _loss_curves(record: RunRecord) -> dict[str, list[Row]]:
    training, dev = CURVES
    curves = {
        training: [(step.step, step.loss) for step in window_means(record.events.steps)],
        dev: [(event.step, event.loss) for event in thinned(record.events.evaluations)],
    }
    last = max((step for points in curves.values() for step, _ in points), default=0)
    for figure in dev_baselines(record) if last else ():
        level = math.log(figure.value)  # perplexity = exp(loss)
        curves[figure.of] = [(0, level), (last, level)]
    drawn = {
        name: [
            {"step": step, "loss": loss, "series": name}
            for step, loss in points
            if math.isfinite(loss)
        ]
        for name, points in curves.items()
    }
    return {name: rows for name, rows in drawn.items() if rows}


def figure_scale(rows: Sequence[Row], *, label_room: float) -> tuple[alt.Scale, list[float]]:
    """Logarithmic where figures differ by factors; the last label has its share of the axis."""
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    before, after = 0.06, label_room / (1 - label_room)
    if low > 0 and high > 3 * low and rows[0].get("metric", "perplexity") in LOWER_IS_BETTER:
        ratio = high / low
        domain = [low / ratio**before, high * ratio**after]
        return alt.Scale(type="log", domain=domain, nice=False), dress.magnitudes(*domain)
    span = high - low or 0.1 * high
    domain = [low - before * span, high + after * span]
    return alt.Scale(zero=False, domain=domain, nice=False), []


def _length_scale(histograms: Iterable[HistogramRecord | None]) -> tuple[alt.Scale, list[float]]:
    """Logarithmic where the bins themselves grow, so that each is drawn equally wide."""
    edges = sorted({edge for h in histograms if h for edge in h.edges})
    if len(edges) < 3 or edges[-1] - edges[-2] <= 2 * (edges[1] - edges[0]):
        return alt.Scale(nice=False, zero=False), []
    ticks = dress.magnitudes(max(edges[0], 1.0), edges[-1])
    # A first edge of 0 has no logarithm; symlog is linear below 1 and logarithmic above.
    return alt.Scale(type="symlog", constant=1, nice=False, zero=False), ticks
