"""Charts of a study: differences by seed, scores with intervals, scores by length.

As in `run_charts`, each function takes the theme and the total width and returns None if there is
nothing to draw; text enters as data values only. The tooltip of a mark is its Vega description,
which `labels_to_tooltips` turns into a `<title>` that browsers show on hover, without a script.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

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
from regard.evaluation.metrics.metric import is_lower_better
from regard.evaluation.statistics.estimate import decimals_shown
from regard.reports.charts import theme as chart_theme
from regard.reports.charts.run_charts import Row, score_scale
from regard.reports.charts.task_charts import length_scores
from regard.reports.charts.theme import Chart, Theme
from regard.reports.evidence import Evidence
from regard.reports.study_text import paired_seeds, short_label
from regard.runs.results import ScoreRecord
from regard.studies.outcome import Outcome, VerdictOutcome
from regard.studies.seed_spread import SeedSpread

DRAWN_SPLITS = ("dev", "test")
ENDS = ("low", "value", "high")


def difference_chart(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """Variant − reference: a dot for each seed, a bar for the interval, a line at zero."""
    verdicts = [v for v in evidence.outcome.verdicts if v.value is not None]
    if not verdicts:
        return None
    bars = [_difference_row(verdict) for verdict in verdicts]
    dots = [row for verdict in verdicts for row in _seed_rows(evidence, verdict)]
    names = chart_theme.name_width([row["of"] for row in bars], width=width)
    labels = chart_theme.label_width((row["label"] for row in bars), width=width - names)
    ends = [0.0, *(row[end] for row in bars for end in ("low", "high", "end"))]
    ends += [row["value"] for row in dots]
    span = max(ends) - min(ends) or 1.0
    label_fraction = labels / (width - names)
    after = 0.02 + label_fraction / (1 - label_fraction)
    domain = [min(ends) - 0.06 * span, max(ends) + span * after]
    metric = metric_label(verdicts[0].score_key.partition(".")[2])
    x = alt.X(
        "value:Q",
        scale=alt.Scale(domain=domain, nice=False),
        title=f"difference in {metric}",
        axis=chart_theme.value_axis(width - names),
    )
    y, offset = _row_encoding(bars, names)
    colour = alt.Color("variant:N", legend=None, scale=palette(evidence, theme))
    base = alt.Chart(alt.NamedData("bars")).encode(y=y, yOffset=offset, color=colour)
    seeds = alt.Chart(alt.NamedData("dots")).encode(y=y, yOffset=offset, color=colour)
    zero = alt.Chart(alt.NamedData("zero"))
    layers = (
        zero.mark_rule(strokeWidth=1, color=theme.quiet).encode(x=x),
        base.mark_rule(strokeWidth=7, opacity=0.3, aria=True).encode(
            x=alt.X("low:Q"), x2="high:Q", description="tooltip:N"
        ),
        base.mark_tick(thickness=2.5, size=18, opacity=1, aria=True).encode(
            x=x, description="tooltip:N"
        ),
        seeds.mark_circle(size=46, opacity=0.75, aria=True).encode(x=x, description="tooltip:N"),
        base.mark_text(align="left", dx=9, fontSize=12, limit=labels - 9).encode(
            x="end:Q", text="label:N"
        ),
    )
    chart = chart_theme.apply_theme(
        alt.layer(*layers), theme=theme, size=(width, 60 + 34 * len(bars))
    )
    return with_data(chart, bars=bars, dots=dots, zero=[{"value": 0}])


def score_chart(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """The deciding metric of valid variants and baselines on dev and test: a dot for the score, a
    bar for its interval."""
    rows = _score_rows(evidence)
    if not rows:
        return None
    names = chart_theme.name_width([row["of"] for row in rows], width=width)
    labels = chart_theme.label_width((row["label"] for row in rows), width=width - names)
    scale, ticks = score_scale(rows, label_fraction=labels / (width - names))
    axis = chart_theme.log_axis(ticks) if ticks else chart_theme.value_axis(width - names)
    metric = metric_label(evidence.outcome.decides.partition(".")[2])
    better = better_side(evidence.outcome)
    x = alt.X("value:Q", scale=scale, title=f"{metric}, {better} is better", axis=axis)
    y, offset = _row_encoding(rows, names)
    colour = alt.Color("of:N", legend=None, scale=palette(evidence, theme))
    base = alt.Chart(alt.NamedData("rows")).encode(y=y, yOffset=offset, color=colour)
    layers = (
        base.mark_circle(size=30, opacity=1, aria=True).encode(x=x, description="tooltip:N"),
        base.mark_rule(strokeWidth=7, opacity=0.35, aria=True).encode(
            x="low:Q", x2="high:Q", description="tooltip:N"
        ),
        base.mark_text(align="left", dx=9, fontSize=12, limit=labels - 9).encode(
            x="high:Q", text="label:N"
        ),
    )
    chart = chart_theme.apply_theme(
        alt.layer(*layers), theme=theme, size=(width, 60 + 28 * len(rows))
    )
    return with_data(chart, rows=rows)


def length_chart(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """The deciding metric on test by source length: a dot and an interval for each run, the
    variants side by side."""
    metric = evidence.outcome.decides.partition(".")[2]
    rows = [
        {
            "of": variant.name,
            "words": row["words"],
            **{end: row["value"] if row[end] is None else row[end] for end in ENDS},
            "tooltip": f"{variant.name}, seed {seed}, {row['words']}: {number(row['value'])} "
            f"{interval(row['low'], row['high'], beside=row['value'])}, "
            f"n = {quantity(row['n'], row['items'])}",
        }
        for variant in evidence.valid_variants
        for seed, record in evidence.records[variant.name].items()
        for row in length_scores(record, metric)
    ]
    if not rows:
        return None
    order = list(dict.fromkeys(row["words"] for row in rows))
    names = list(dict.fromkeys(row["of"] for row in rows))
    base = alt.Chart(alt.NamedData("rows")).encode(
        x=alt.X("words:N", sort=order, title="source length in words", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("of:N", sort=names),
        color=alt.Color(
            "of:N",
            scale=palette(evidence, theme, names),
            legend=chart_theme.legend(width),
            sort=names,
        ),
    )
    layers = (
        base.mark_rule(strokeWidth=7, opacity=0.35, aria=True).encode(
            y=alt.Y("low:Q", title=metric_label(metric)), y2="high:Q", description="tooltip:N"
        ),
        base.mark_circle(size=40, opacity=1, aria=True).encode(
            y=alt.Y("value:Q", title=metric_label(metric), scale=alt.Scale(zero=True)),
            description="tooltip:N",
        ),
    )
    chart = chart_theme.apply_theme(alt.layer(*layers), theme=theme, size=(width, 280))
    return with_data(chart, rows=rows)


def better_side(outcome: Outcome) -> str:
    """The better side of an axis of the deciding metric or of differences in it."""
    return "left" if is_lower_better(outcome.decides.partition(".")[2]) else "right"


def with_data(chart: Chart, **datasets: Sequence[Row]) -> Chart:
    """The chart with its named datasets; attached last, because Altair copies what it holds."""
    chart["datasets"] = {name: list(rows) for name, rows in datasets.items()}
    return chart


def labels_to_tooltips(svg: str) -> Markup:
    """Vega's aria-labels of marks as `<title>` elements, which browsers show on hover."""
    label = r'aria-label="([^"]*)" role="[^"]*" aria-roledescription="[^"]*"'
    # `str`, because substitutions in a Markup would be escaped again.
    titled = re.sub(rf"<(\w+) {label} ([^>]*)/>", r"<\1 \3><title>\2</title></\1>", str(svg))
    # Safe: Vega escaped the labels, and attribute escaping is sufficient for element text.
    return Markup(re.sub(r' role="graphics-\w+"| aria-roledescription="[^"]*"', "", titled))


def display_name(evidence: Evidence, variant: str) -> str:
    """The variant's name, marked if it is invalid or collapsed."""
    outcome = evidence.outcome.variant(variant)
    if outcome.is_ranked:
        return variant
    return f"{variant} ({'collapsed' if outcome.is_valid else 'invalid'})"


def palette(evidence: Evidence, theme: Theme, shown: Sequence[str] | None = None) -> alt.Scale:
    """A colour for each variant, the same in every chart, and grey for baselines; the legend has
    the names in `shown`, by default all."""
    colours = (theme.model, *theme.baselines, theme.training)
    variants = [variant.name for variant in evidence.variants]
    by_name = {name: colours[index % len(colours)] for index, name in enumerate(variants)}
    by_name |= {display_name(evidence, name): by_name[name] for name in variants}
    baselines = {row.of for row in evidence.outcome.baselines} - by_name.keys()
    by_name |= dict.fromkeys(sorted(baselines), theme.quiet)
    names = list(by_name) if shown is None else list(shown)
    return alt.Scale(domain=names, range=[by_name[name] for name in names])


def _row_encoding(rows: Sequence[Row], names: int) -> tuple[alt.Y, alt.YOffset]:
    owners = list(dict.fromkeys(row["of"] for row in rows))
    splits = [split_label(name) for name in order_splits(row["split"] for row in rows)]
    y = alt.Y("of:N", sort=owners, title=None, axis=chart_theme.name_axis(names))
    return y, alt.YOffset("split_label:N", sort=splits)


def _difference_row(verdict: VerdictOutcome) -> Row:
    assert verdict.value is not None
    low = verdict.value if verdict.low is None else verdict.low
    high = verdict.value if verdict.high is None else verdict.high
    split = verdict.score_key.partition(".")[0]
    pair = f"{verdict.variant} − {verdict.reference}"
    text = difference(verdict.value, verdict.low, verdict.high, decimals=2)
    seeds = quantity(verdict.seeds, "seeds")
    return {
        "of": pair,
        "variant": verdict.variant,
        "split": split,
        "split_label": split_label(split),
        "value": verdict.value,
        "low": low,
        "high": high,
        "end": max(high, *verdict.per_seed) if verdict.per_seed else high,
        "label": f"{_signed(verdict.value)}  {split}",
        "tooltip": f"{pair}, {short_label(verdict.score_key)}: {text}, {seeds}",
    }


def _signed(value: float) -> str:
    """`+0.225`: three digits, the verdict has them all."""
    return number(value, decimals=max(decimals_shown(value) - 1, 0), sign="+")


def _seed_rows(evidence: Evidence, verdict: VerdictOutcome) -> list[Row]:
    row = _difference_row(verdict)
    label = short_label(verdict.score_key)
    seeds = paired_seeds(evidence.outcome, verdict)
    return [
        {
            **{key: row[key] for key in ("of", "variant", "split", "split_label")},
            "value": value,
            "tooltip": f"{'a seed' if seed is None else f'seed {seed}'}, {label}: {_signed(value)}",
        }
        for seed, value in zip(seeds, verdict.per_seed, strict=True)
        if math.isfinite(value)
    ]


def _score_rows(evidence: Evidence) -> list[Row]:
    metric = evidence.outcome.decides.partition(".")[2]
    rows = [
        _score_row(variant.name, split, spread, f"{quantity(len(spread.per_seed), 'seeds')}")
        for variant in evidence.valid_variants
        if variant.name not in evidence.other_tokenizers or metric != "perplexity"
        for split in DRAWN_SPLITS
        if (spread := variant.estimates.get(f"{split}.{metric}"))
    ]
    rows += [
        _score_row(score.of, score.split, score, "baseline")
        for score in evidence.outcome.baselines
        if score.metric == metric and score.split in DRAWN_SPLITS
    ]
    bound = 0.0 if is_lower_better(metric) else -math.inf  # for a logarithmic axis
    return [
        row | {"metric": metric}
        for row in rows
        if all(math.isfinite(row[end]) and row[end] > bound for end in ENDS)
    ]


def _score_row(of: str, split: str, score: SeedSpread | ScoreRecord, note: str) -> Row:
    value, low, high = score.value, score.low, score.high
    text = f"{number(value)} {interval(low, high, beside=value)}"
    return {
        "of": of,
        "split": split,
        "split_label": split_label(split),
        "value": value,
        "low": value if low is None else low,
        "high": value if high is None else high,
        "label": f"{number(value)}  {split}",
        "tooltip": f"{of}, {split_label(split)}: {text}, n = {quantity(score.n, score.items)}, "
        f"{note}",
    }
