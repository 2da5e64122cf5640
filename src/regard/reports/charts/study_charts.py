"""The pictures of a study: differences seed by seed, figures with intervals, scores by length.

As in `charts`, each takes the theme and the whole width, and is None where there is nothing to
draw; text enters as data values only. What a mark says when pointed at is its description, which
`with_titles` turns into the `<title>` that every browser shows: no script is needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import altair as alt
from markupsafe import Markup

from regard.evaluation.formatting import (
    difference,
    interval,
    metric_label,
    number,
    order_splits,
    quantity,
    split_label,
)
from regard.evaluation.metrics.metric import LOWER_IS_BETTER
from regard.evaluation.statistics.estimate import decimals_shown
from regard.reports.charts import theme as dress
from regard.reports.charts.run_charts import Row, figure_scale
from regard.reports.charts.task_charts import length_scores
from regard.reports.charts.theme import Chart, Theme
from regard.reports.evidence import Evidence
from regard.reports.findings import seeds_of, short_name
from regard.runs.archive.record import ScoreRecord
from regard.studies.outcome import Outcome, VerdictOutcome

PARTS_DRAWN = ("dev", "test")
ENDS = ("low", "value", "high")


def difference_chart(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """Variant − reference: a dot for each seed, a bar for the interval, a line at nought."""
    judged = [one for one in evidence.outcome.verdicts if one.value is not None]
    if not judged:
        return None
    bars = [_difference_row(one) for one in judged]
    dots = [row for one in judged for row in _seed_rows(evidence, one)]
    names = dress.name_room([row["of"] for row in bars], width=width)
    labels = dress.label_room((row["label"] for row in bars), width=width - names)
    ends = [0.0, *(row[end] for row in bars for end in ("low", "high", "end"))]
    ends += [row["value"] for row in dots]
    span = max(ends) - min(ends) or 1.0
    room = labels / (width - names)
    domain = [min(ends) - 0.06 * span, max(ends) + span * (0.02 + room / (1 - room))]
    what = metric_label(judged[0].figure.partition(".")[2])
    x = alt.X(
        "value:Q",
        scale=alt.Scale(domain=domain, nice=False),
        title=f"difference in {what}",
        axis=dress.value_axis(width - names),
    )
    y, offset = _rows_of(bars, names)
    colour = alt.Color("variant:N", legend=None, scale=palette(evidence, theme))
    base = alt.Chart(alt.NamedData("bars")).encode(y=y, yOffset=offset, color=colour)
    seeds = alt.Chart(alt.NamedData("dots")).encode(y=y, yOffset=offset, color=colour)
    nought = alt.Chart(alt.NamedData("nought"))
    layers = (
        nought.mark_rule(strokeWidth=1, color=theme.quiet).encode(x=x),
        base.mark_rule(strokeWidth=7, opacity=0.3, aria=True).encode(
            x=alt.X("low:Q"), x2="high:Q", description="says:N"
        ),
        base.mark_tick(thickness=2.5, size=18, opacity=1, aria=True).encode(
            x=x, description="says:N"
        ),
        seeds.mark_circle(size=46, opacity=0.75, aria=True).encode(x=x, description="says:N"),
        base.mark_text(align="left", dx=9, fontSize=12, limit=labels - 9).encode(
            x="end:Q", text="label:N"
        ),
    )
    chart = dress.dressed(alt.layer(*layers), theme=theme, size=(width, 60 + 34 * len(bars)))
    return with_data(chart, bars=bars, dots=dots, nought=[{"value": 0}])


def figure_chart(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """The deciding metric of valid variants and of baselines, held-out parts: a dot on a bar."""
    rows = _figure_rows(evidence)
    if not rows:
        return None
    names = dress.name_room([row["of"] for row in rows], width=width)
    labels = dress.label_room((row["label"] for row in rows), width=width - names)
    scale, ticks = figure_scale(rows, label_room=labels / (width - names))
    axis = dress.magnitude_axis(ticks) if ticks else dress.value_axis(width - names)
    what = metric_label(evidence.outcome.decides.partition(".")[2])
    better = better_side(evidence.outcome)
    x = alt.X("value:Q", scale=scale, title=f"{what}, {better} is better", axis=axis)
    y, offset = _rows_of(rows, names)
    colour = alt.Color("of:N", legend=None, scale=palette(evidence, theme))
    base = alt.Chart(alt.NamedData("rows")).encode(y=y, yOffset=offset, color=colour)
    layers = (
        base.mark_circle(size=30, opacity=1, aria=True).encode(x=x, description="says:N"),
        base.mark_rule(strokeWidth=7, opacity=0.35, aria=True).encode(
            x="low:Q", x2="high:Q", description="says:N"
        ),
        base.mark_text(align="left", dx=9, fontSize=12, limit=labels - 9).encode(
            x="high:Q", text="label:N"
        ),
    )
    chart = dress.dressed(alt.layer(*layers), theme=theme, size=(width, 60 + 28 * len(rows)))
    return with_data(chart, rows=rows)


def length_chart(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """The deciding metric on test by the length of the source: a dot and an interval for each
    training, the variants side by side."""
    what = evidence.outcome.decides.partition(".")[2]
    rows = [
        {
            "of": variant.name,
            "words": row["words"],
            **{end: row["value"] if row[end] is None else row[end] for end in ENDS},
            "says": f"{variant.name}, seed {seed}, {row['words']}: {number(row['value'])} "
            f"{interval(row['low'], row['high'], beside=row['value'])}, "
            f"n = {quantity(row['n'], row['items'])}",
        }
        for variant in evidence.valid
        for seed, record in evidence.records[variant.name].items()
        for row in length_scores(record, what)
    ]
    if not rows:
        return None
    order = list(dict.fromkeys(row["words"] for row in rows))
    names = list(dict.fromkeys(row["of"] for row in rows))
    base = alt.Chart(alt.NamedData("rows")).encode(
        x=alt.X("words:N", sort=order, title="words of the source", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("of:N", sort=names),
        color=alt.Color(
            "of:N", scale=palette(evidence, theme, names), legend=dress.legend(width), sort=names
        ),
    )
    layers = (
        base.mark_rule(strokeWidth=7, opacity=0.35, aria=True).encode(
            y=alt.Y("low:Q", title=metric_label(what)), y2="high:Q", description="says:N"
        ),
        base.mark_circle(size=40, opacity=1, aria=True).encode(
            y=alt.Y("value:Q", title=metric_label(what), scale=alt.Scale(zero=True)),
            description="says:N",
        ),
    )
    chart = dress.dressed(alt.layer(*layers), theme=theme, size=(width, 280))
    return with_data(chart, rows=rows)


def better_side(outcome: Outcome) -> str:
    """Of an axis of the metric that decides, or of differences in it."""
    return "left" if outcome.decides.partition(".")[2] in LOWER_IS_BETTER else "right"


def with_data(chart: Chart, **datasets: Sequence[Row]) -> Chart:
    """The chart with the rows its layers name: last, because Altair copies what it holds."""
    chart["datasets"] = {name: list(rows) for name, rows in datasets.items()}
    return chart


def with_titles(svg: str) -> Markup:
    """What Vega wrote as labels for marks, as titles that a browser shows on hover."""
    label = r'aria-label="([^"]*)" role="[^"]*" aria-roledescription="[^"]*"'
    # `str`, because pieces of a Markup would be escaped when they are joined again.
    titled = re.sub(rf"<(\w+) {label} ([^>]*)/>", r"<\1 \3><title>\2</title></\1>", str(svg))
    # Safe: Vega escaped the labels, and what is escaped for an attribute is so for an element.
    return Markup(re.sub(r' role="graphics-\w+"| aria-roledescription="[^"]*"', "", titled))


def shown_name(evidence: Evidence, variant: str) -> str:
    """Its name; one whose figures mean nothing says so wherever it is drawn."""
    found = evidence.outcome.variant(variant)
    if found.is_ranked:
        return variant
    return f"{variant} ({'collapsed' if found.is_valid else 'invalid'})"


def palette(evidence: Evidence, theme: Theme, shown: Sequence[str] | None = None) -> alt.Scale:
    """A variant keeps its colour in every chart; baselines are quiet. A legend has those that are
    `shown`, or all."""
    colours = (theme.model, *theme.baselines, theme.training)
    variants = [variant.name for variant in evidence.variants]
    chosen = {name: colours[place % len(colours)] for place, name in enumerate(variants)}
    chosen |= {shown_name(evidence, name): chosen[name] for name in variants}
    others = {row["of"] for row in evidence.outcome.baselines} - chosen.keys()
    chosen |= dict.fromkeys(sorted(others), theme.quiet)
    names = list(chosen) if shown is None else list(shown)
    return alt.Scale(domain=names, range=[chosen[name] for name in names])


def _rows_of(rows: Sequence[Row], names: int) -> tuple[alt.Y, alt.YOffset]:
    who = list(dict.fromkeys(row["of"] for row in rows))
    parts = [split_label(name) for name in order_splits(row["named"] for row in rows)]
    y = alt.Y("of:N", sort=who, title=None, axis=dress.name_axis(names))
    return y, alt.YOffset("part:N", sort=parts)


def _difference_row(one: VerdictOutcome) -> Row:
    assert one.value is not None
    low = one.value if one.low is None else one.low
    high = one.value if one.high is None else one.high
    named = one.figure.partition(".")[0]
    pair = f"{one.variant} − {one.reference}"
    words = difference(one.value, one.low, one.high, decimals=2)
    return {
        "of": pair,
        "variant": one.variant,
        "named": named,
        "part": split_label(named),
        "value": one.value,
        "low": low,
        "high": high,
        "end": max(high, *one.per_seed) if one.per_seed else high,
        "label": f"{_signed(one.value)}  {named}",
        "says": f"{pair}, {short_name(one.figure)}: {words}, {quantity(one.seeds, 'seeds')}",
    }


def _signed(value: float) -> str:
    """`+0.225`: three digits are enough beside the words."""
    return number(value, decimals=max(decimals_shown(value) - 1, 0), sign="+")


def _seed_rows(evidence: Evidence, one: VerdictOutcome) -> list[Row]:
    row = _difference_row(one)
    who = seeds_of(evidence.outcome, one)
    return [
        {
            **{key: row[key] for key in ("of", "variant", "named", "part")},
            "value": value,
            "says": f"{'a seed' if seed is None else f'seed {seed}'}, {short_name(one.figure)}: "
            f"{_signed(value)}",
        }
        for seed, value in zip(who, one.per_seed, strict=True)
        if math.isfinite(value)
    ]


def _figure_rows(evidence: Evidence) -> list[Row]:
    what = evidence.outcome.decides.partition(".")[2]
    found = [
        _figure_row(variant.name, name, spread, f"{quantity(len(spread.per_seed), 'seeds')}")
        for variant in evidence.valid
        if variant.name not in evidence.other_tokens or what != "perplexity"
        for name in PARTS_DRAWN
        if (spread := variant.figures.get(f"{name}.{what}"))
    ]
    found += [
        _figure_row(figure.of, figure.part, figure, "baseline")
        for figure in map(ScoreRecord.model_validate, evidence.outcome.baselines)
        if figure.metric == what and figure.part in PARTS_DRAWN
    ]
    lowest = 0.0 if what in LOWER_IS_BETTER else -math.inf  # a perplexity has to have a logarithm
    return [
        row | {"metric": what}
        for row in found
        if all(math.isfinite(row[end]) and row[end] > lowest for end in ENDS)
    ]


def _figure_row(of: str, named: str, measured: Any, note: str) -> Row:
    value, low, high = measured.value, measured.low, measured.high
    n = quantity(measured.n, measured.items)
    return {
        "of": of,
        "named": named,
        "part": split_label(named),
        "value": value,
        "low": value if low is None else low,
        "high": value if high is None else high,
        "label": f"{number(value)}  {named}",
        "says": f"{of}, {split_label(named)}: {number(value)} {interval(low, high, beside=value)}, "
        f"n = {n}, {note}",
    }
