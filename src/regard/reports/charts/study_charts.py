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
    decimals_shown,
    difference,
    interval,
    metric_label,
    number,
    quantity,
    sample_size,
    split_label,
    with_interval,
)
from regard.reports.charts import score_dots
from regard.reports.charts import theme as chart_theme
from regard.reports.charts.score_dots import (
    ENDS,
    Row,
    draw_length_scores,
    draw_scores,
    is_drawable,
    row_channels,
    score_row,
    with_data,
)
from regard.reports.charts.task_charts import length_scores
from regard.reports.charts.theme import Chart, Theme
from regard.reports.evidence import Evidence, score_keys
from regard.reports.study_text import audit_label, paired_seeds, short_label
from regard.runs.results import ScoreRecord
from regard.studies.outcome import Outcome, VerdictOutcome
from regard.studies.seed_spread import SeedSpread


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
    channels = row_channels(bars, names)
    channels["color"] = alt.Color("variant:N", legend=None, scale=palette(evidence, theme))
    base = alt.Chart(alt.NamedData("bars")).encode(**channels)
    seeds = alt.Chart(alt.NamedData("dots")).encode(**channels)
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
    """The deciding metric of valid variants and baselines on dev and test."""
    rows = _score_rows(evidence)
    if not rows:
        return None
    return draw_scores(
        rows,
        lower_is_better=evidence.outcome.prefers_less,
        colours=palette(evidence, theme),
        theme=theme,
        width=width,
    )


def length_chart(evidence: Evidence, *, theme: Theme, width: int) -> Chart | None:
    """The deciding metric on test by source length: a dot and an interval for each run, the
    variants side by side."""
    metric = evidence.outcome.decides.partition(".")[2]
    rows = [
        row
        | {
            "of": variant.name,
            **{end: row["value"] if row[end] is None else row[end] for end in ENDS},
            "tooltip": f"{variant.name}, seed {seed}, {row['words']}: {number(row['value'])} "
            f"{interval(row['low'], row['high'], beside=row['value'])}, "
            f"n = {sample_size(row['n'], row['items'], row.get('groups'))}",
        }
        for variant in evidence.valid_variants
        for seed, record in evidence.records[variant.name].items()
        for row in length_scores(record, metric)
    ]
    if not rows:
        return None
    names = list(dict.fromkeys(row["of"] for row in rows))
    colour = alt.Color(
        "of:N",
        scale=palette(evidence, theme, names),
        legend=chart_theme.legend(width),
        sort=names,
    )
    return draw_length_scores(
        rows,
        metric=metric,
        theme=theme,
        size=(width, 280),
        xOffset=alt.XOffset("of:N", sort=names),
        color=colour,
    )


def better_side(outcome: Outcome) -> str:
    """The better side of an axis of the deciding metric or of differences in it."""
    return score_dots.better_side(lower_is_better=outcome.prefers_less)


def labels_to_tooltips(svg: str) -> Markup:
    """Vega's aria-labels of marks as `<title>` elements, which browsers show on hover."""
    label = r'aria-label="([^"]*)" role="[^"]*" aria-roledescription="[^"]*"'
    # `str`, because substitutions in a Markup would be escaped again.
    titled = re.sub(rf"<(\w+) {label} ([^>]*)/>", r"<\1 \3><title>\2</title></\1>", str(svg))
    # Safe: Vega escaped the labels, and attribute escaping is sufficient for element text.
    return Markup(re.sub(r' role="graphics-\w+"| aria-roledescription="[^"]*"', "", titled))


def display_name(evidence: Evidence, variant: str) -> str:
    """The variant's name, marked if it is invalid, collapsed or diverged."""
    outcome = evidence.outcome.variant(variant)
    if outcome.is_ranked:
        return variant
    return f"{variant} ({audit_label(outcome).lower()})"


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
    splits = [key.partition(".")[0] for key in score_keys(evidence.outcome, metric)]
    drawn = [split for split in splits if split != "train"]
    rows = [
        _score_row(variant.name, split, metric, spread, quantity(len(spread.per_seed), "seeds"))
        for variant in evidence.valid_variants
        if variant.name not in evidence.other_tokenizers or metric != "perplexity"
        for split in drawn
        if (spread := variant.estimates.get(f"{split}.{metric}"))
    ]
    rows += [
        _score_row(score.of, score.split, metric, score, "baseline")
        for score in evidence.outcome.baselines
        if score.metric == metric and score.split in drawn
    ]
    return [row for row in rows if is_drawable(row)]


def _score_row(of: str, split: str, metric: str, score: SeedSpread | ScoreRecord, note: str) -> Row:
    tooltip = (
        f"{of}, {split_label(split)}: {with_interval(score)}, "
        f"n = {sample_size(score.n, score.items, score.groups)}, {note}"
    )
    return score_row(of, split, metric, score) | {"tooltip": tooltip}
