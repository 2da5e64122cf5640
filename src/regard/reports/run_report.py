"""The report of a run: one HTML file that opens offline, results first.

Everything comes from the run folder. The template escapes all text from dataset, model and recipe;
in addition, the page's content security policy forbids scripts and requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from altair.utils.schemapi import debug_mode
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from regard.core.errors import UserError
from regard.core.files import write_output
from regard.evaluation import formatting
from regard.evaluation.metrics.metric import is_lower_better
from regard.reports.charts import run_charts
from regard.reports.charts.drawing import check_drawing
from regard.reports.charts.task_charts import (
    calibration_chart,
    length_score_chart,
    risk_chart,
    threshold_chart,
)
from regard.reports.charts.theme import DARK, LIGHT, Chart, recolour_for_dark
from regard.reports.versus_baselines import headlines
from regard.runs.archive.read_run import read_run
from regard.runs.archive.record import RunRecord
from regard.runs.results import MODEL, ScoreRecord

WIDTHS = {"wide": 860, "narrow": 360}
"Chart widths in pixels: for screen and print, and for phones."
FRAGMENT_WIDTHS = {"wide": 860}
"In a notebook: the chart shrinks with the cell."

RUN_CHARTS: dict[str, Callable[..., Chart | None]] = {
    "intervals": run_charts.interval_chart,
    "loss": run_charts.loss_chart,
    "learning-rate": run_charts.learning_rate_chart,
    "lengths": run_charts.length_chart,
    "threshold": threshold_chart,
    "risk": risk_chart,
    "calibration": calibration_chart,
    "by-length": length_score_chart,
}
TASK_CHARTS = {
    "threshold": (
        "F1 by threshold",
        "On dev. The dot marks the chosen τ, fixed before the evaluation on test.",
    ),
    "risk": (
        "Risk and coverage",
        "Error rate among the answered questions, against the fraction that is answered, "
        "most confident first.",
    ),
    "calibration": (
        "Calibration",
        "On the dashed line, accuracy equals confidence.",
    ),
    "by-length": (
        "Score by source length",
        "On test. Dot: score; bar: its interval.",
    ),
}
"Title and caption of those that only some tasks have."
LAYOUT = "page.html.j2"
"What a report extends: a file of its own; `regard serve` gives its pages another."

MAX_SAMPLES = 12
MAX_CHARACTERS = 2000
"Of one sample; samples.txt has the full text."


def write_report(folder: Path, *, out: Path | None = None) -> Path:
    """Write the report of the run in `folder` to `out`, by default `folder`/report.html."""
    folder = Path(folder)
    page = report_html(read_run(folder))
    target = folder / "report.html" if out is None else Path(out)
    write_output(target, page, creates_folder=out is not None)
    return target


def report_html(record: RunRecord) -> str:
    """The page as HTML text."""
    values = report_values(record, lambda name: draw_inline_charts(RUN_CHARTS[name], record))
    return page_templates().get_template("report.html.j2").render(values, layout=LAYOUT)


def report_values(record: RunRecord, drawn: Callable[[str], list[InlineChart]]) -> dict[str, Any]:
    """What the template shows of a run; `drawn` draws a chart of RUN_CHARTS by its name."""
    results = record.results
    return {
        "run": record,
        "events": record.events,
        "results": results,
        "headlines": headlines(results) if results else [],
        "tables": score_tables(results.estimates) if results else [],
        "intervals": drawn("intervals"),
        "losses": drawn("loss"),
        "dev_baselines": run_charts.dev_baselines(record),
        "learning_rate": drawn("learning-rate"),
        "lengths": drawn("lengths"),
        "task_charts": [
            (title, caption, charts)
            for name, (title, caption) in TASK_CHARTS.items()
            if (charts := drawn(name))
        ],
        "samples_during": run_charts.subsample(record.events.samples, 6),
    }


@dataclass(frozen=True)
class ScoreTable:
    """Scores on one split: a row for the model and each baseline, a column for each metric."""

    split: str
    metrics: tuple[str, ...]
    rows: tuple[tuple[str, tuple[ScoreRecord | None, ...]], ...]

    @property
    def shared_n(self) -> str | None:
        """`2,104 documents` if all scores of the table have the same n."""
        sizes = {
            formatting.sample_size(score.n, score.items, score.groups)
            for _, cells in self.rows
            for score in cells
            if score
        }
        return sizes.pop() if len(sizes) == 1 else None


def score_tables(scores: Sequence[ScoreRecord]) -> list[ScoreTable]:
    """Every score once: test before dev before train, the model before its baselines."""
    tables = []
    for split in formatting.order_splits(score.split for score in scores):
        cells = {(score.of, score.metric): score for score in scores if score.split == split}
        metrics = sorted(
            {metric for _, metric in cells}, key=_order_key(list(formatting.METRIC_LABELS))
        )
        names = sorted(dict.fromkeys(of for of, _ in cells), key=lambda of: of != MODEL)
        rows = tuple((of, tuple(cells.get((of, metric)) for metric in metrics)) for of in names)
        tables.append(ScoreTable(split, tuple(metrics), rows))
    return tables


@dataclass(frozen=True)
class InlineChart:
    theme: str
    width: str
    svg: Markup


def draw_inline_charts(
    draw: Callable[..., Chart | None], record: object, widths: Mapping[str, int] = WIDTHS
) -> list[InlineChart]:
    """One chart in light and dark, in each width; an empty list if there is nothing to draw."""
    try:
        check_drawing()
    except UserError as problem:
        notice = Markup('<p class="quiet">{}</p>').format(problem.what)
        return [InlineChart(theme.name, name, notice) for theme in (LIGHT, DARK) for name in widths]
    drawn: dict[tuple[str, str], str] = {}
    # Altair's schema validation takes as long as drawing; the tests validate every chart instead.
    with debug_mode(False):
        for theme in (LIGHT, DARK):
            for name, width in widths.items():
                svg = recolour_for_dark(drawn[LIGHT.name, name]) if theme is DARK else None
                if svg is None:
                    chart = draw(record, theme=theme, width=width)
                    if chart is None:
                        return []
                    svg = run_charts.to_svg(chart)
                drawn[theme.name, name] = svg
    return [InlineChart(theme, name, _prepare_svg(svg)) for (theme, name), svg in drawn.items()]


def _prepare_svg(svg: str) -> Markup:
    """SVG for inlining into HTML: ids get a prefix that only equal pictures share, XML attributes
    go."""
    prefix = f"svg-{sha256(svg.encode()).hexdigest()[:12]}"
    svg = re.sub(r'\bid="(\w+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r"url\(#(\w+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"| version="1.1"', "", svg)
    # Safe: Vega escaped every text and wrote the elements itself.
    return Markup(svg)


def build_templates(*packages: str, filters: Iterable[Callable[..., object]]) -> Environment:
    """The templates of some packages, the first one before the next; filters by function name."""
    # autoescape=True, not select_autoescape: it would not take `.html.j2` for HTML.
    templates = Environment(
        loader=ChoiceLoader(list(map(PackageLoader, packages))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {function.__name__: function for function in filters}
    return templates


@cache
def page_templates() -> Environment:
    filters = (
        formatting.number,
        formatting.interval,
        formatting.count,
        formatting.quantity,
        formatting.sample_size,
        formatting.percent,
        formatting.duration,
        formatting.memory_size,
        formatting.timestamp,
        formatting.split_label,
        formatting.metric_label,
        formatting.drop_reason,
        formatting.capitalise,
        formatting.with_interval,
        truncate_text,
        no_breaks,
    )
    templates = build_templates("regard.reports", filters=filters)
    templates.globals["MAX_SAMPLES"] = MAX_SAMPLES
    templates.globals["is_lower_better"] = is_lower_better
    return templates


def truncate_text(text: str) -> str:
    """`text`, or its beginning and the count of omitted characters."""
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]} … [{len(text) - MAX_CHARACTERS:,} more characters]"


def no_breaks(text: str) -> Markup:
    """`text` as HTML without line breaks in `Kneser-Ney`, `7 %` or `138.3 [126.8, 150.7]`."""
    pieces = re.split(r"((?<!\S)\S+ \[[^\[\]]*\]\S*|\s+)", text.replace(" %", "\u00a0%"))
    return Markup("").join(
        Markup('<span class="whole">{}</span>').format(piece)
        if "-" in piece or "[" in piece
        else escape(piece)
        for piece in pieces
    )


def _order_key(order: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    return lambda name: (order.index(name) if name in order else len(order), name)
