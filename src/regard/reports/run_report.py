"""The report of a run: one HTML file that opens offline and says first what was found.

Everything comes from the run folder. Text of the dataset, of the model and of the recipe is
escaped by the template; besides, the page's own policy forbids every script and every request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from altair.utils.schemapi import debug_mode
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from regard.core.errors import UserError
from regard.core.files import write_text
from regard.evaluation import formatting
from regard.evaluation.metrics.metric import LOWER_IS_BETTER
from regard.reports.charts import run_charts
from regard.reports.charts.task_charts import (
    calibration_chart,
    length_score_chart,
    risk_chart,
    threshold_chart,
)
from regard.reports.charts.theme import DARK, LIGHT, Chart, in_dark
from regard.reports.versus_baselines import headlines, with_interval
from regard.runs.archive.read_run import read_run
from regard.runs.archive.record import MODEL, RunRecord, ScoreRecord

WIDE, NARROW = 860, 360
"Widths of the charts, in pixels: for a screen or paper, and for a phone."

TASK_CHARTS: tuple[tuple[str, str, Callable[..., Chart | None]], ...] = (
    (
        "F1 against the threshold",
        "On dev, where τ was chosen (the dot); it was frozen before test was answered.",
        threshold_chart,
    ),
    (
        "Wrong answers by how many are given",
        "The surest answers first: at the left few questions are answered, at the right all.",
        risk_chart,
    ),
    (
        "Confidence and being right",
        "On the dashed line, answers are right as often as the model is sure.",
        calibration_chart,
    ),
    (
        "By length of the source",
        "On test: the bar around each dot is its interval.",
        length_score_chart,
    ),
)
"Title, what it says, and what draws it."

MOST_SAMPLES = 12
MOST_CHARACTERS = 2000
"Of one sample; the whole text stands in samples.txt."


def write_report(folder: Path, *, out: Path | None = None) -> Path:
    """Write the report of the run in `folder` to `out`, or else into the folder itself."""
    folder = Path(folder)
    page = report_html(read_run(folder))
    target = folder / "report.html" if out is None else Path(out)
    write_page(target, page)
    return target


def report_html(record: RunRecord) -> str:
    """The page as text."""
    figures = record.figures
    return (
        page_templates()
        .get_template("report.html.j2")
        .render(
            run=record,
            events=record.events,
            figures=figures,
            headlines=headlines(figures) if figures else [],
            tables=figure_tables(figures.figures) if figures else [],
            intervals=drawings(run_charts.interval_chart, record),
            losses=drawings(run_charts.loss_chart, record),
            dev_baselines=run_charts.dev_baselines(record),
            learning_rate=drawings(run_charts.learning_rate_chart, record),
            lengths=drawings(run_charts.length_chart, record),
            task_charts=[
                (title, says, drawn)
                for title, says, draw in TASK_CHARTS
                if (drawn := drawings(draw, record))
            ],
            samples_during=run_charts.thinned(record.events.samples, 6),
        )
    )


@dataclass(frozen=True)
class FigureTable:
    """The figures on one part: a row for the model and each baseline, a column for each metric."""

    part: str
    metrics: tuple[str, ...]
    rows: tuple[tuple[str, tuple[ScoreRecord | None, ...]], ...]

    @property
    def shared_n(self) -> str | None:
        """`2,104 documents` where every figure of the table stands on the same number."""
        sizes = {(f.n, f.items) for _, cells in self.rows for f in cells if f}
        if len(sizes) != 1:
            return None
        n, items = sizes.pop()
        return formatting.quantity(n, items)


def figure_tables(figures: Sequence[ScoreRecord]) -> list[FigureTable]:
    """Every figure once, test before dev before train, the model before its baselines."""
    tables = []
    for part in formatting.order_splits(f.part for f in figures):
        here = {(f.of, f.metric): f for f in figures if f.part == part}
        metrics = sorted({metric for _, metric in here}, key=_place(list(formatting.METRIC_LABELS)))
        who = sorted(dict.fromkeys(of for of, _ in here), key=lambda of: of != MODEL)
        rows = tuple((of, tuple(here.get((of, metric)) for metric in metrics)) for of in who)
        tables.append(FigureTable(part, tuple(metrics), rows))
    return tables


@dataclass(frozen=True)
class InlineChart:
    theme: str
    width: str
    svg: Markup


def drawings(draw: Callable[..., Chart | None], record: object) -> list[InlineChart]:
    """One chart in light and dark, wide and narrow; none where there is nothing to draw."""
    sizes = {"wide": WIDE, "narrow": NARROW}
    drawn: dict[tuple[str, str], str] = {}
    # Altair's own checks take as long as the drawing: tests make them, for every chart.
    with debug_mode(False):
        for theme in (LIGHT, DARK):
            for name, width in sizes.items():
                svg = in_dark(drawn[LIGHT.name, name]) if theme is DARK else None
                if svg is None:
                    chart = draw(record, theme=theme, width=width)
                    if chart is None:
                        return []
                    svg = run_charts.svg(chart)
                drawn[theme.name, name] = svg
    return [
        InlineChart(theme, name, _inlined(svg, own=f"{draw.__name__}-{theme}-{name}"))
        for (theme, name), svg in drawn.items()
    ]


def _inlined(svg: str, *, own: str) -> Markup:
    """SVG fit to stand in HTML with others: its ids are its own, its size follows the page."""
    svg = re.sub(r'\bid="(\w+)"', rf'id="{own}-\1"', svg)
    svg = re.sub(r"url\(#(\w+)\)", rf"url(#{own}-\1)", svg)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"| version="1.1"', "", svg)
    # Safe: Vega escaped every text, and wrote the elements itself.
    return Markup(svg)


@cache
def page_templates() -> Environment:
    # autoescape=True, not by file ending: `.html.j2` would not count as HTML.
    templates = Environment(
        loader=PackageLoader("regard.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for write in (
        formatting.number,
        formatting.interval,
        formatting.count,
        formatting.quantity,
        formatting.percent,
        formatting.duration,
        formatting.memory_size,
        formatting.timestamp,
        formatting.split_label,
        formatting.metric_label,
        formatting.drop_reason,
        formatting.capitalise,
        with_interval,
        shortened,
        unbroken,
    ):
        templates.filters[write.__name__] = write
    templates.globals["MOST_SAMPLES"] = MOST_SAMPLES
    templates.globals["LOWER_IS_BETTER"] = LOWER_IS_BETTER
    return templates


def shortened(text: str) -> str:
    """`text`, or its beginning with a note of what is missing."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]} … [{len(text) - MOST_CHARACTERS:,} more characters]"


def unbroken(text: str) -> Markup:
    """`text` as HTML in which no line ends within `Kneser-Ney`, `7 %` or `138.3 [126.8, 150.7]`."""
    pieces = re.split(r"((?<!\S)\S+ \[[^\[\]]*\]\S*|\s+)", text.replace(" %", "\u00a0%"))
    return Markup("").join(
        Markup('<span class="whole">{}</span>').format(piece)
        if "-" in piece or "[" in piece
        else escape(piece)
        for piece in pieces
    )


def _place(order: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    return lambda name: (order.index(name) if name in order else len(order), name)


def write_page(target: Path, page: str) -> None:
    if target.is_dir():
        raise UserError("is a folder", topic="output", where=str(target), hint="Name a file.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, page)
    except (PermissionError, FileExistsError, NotADirectoryError) as problem:
        raise UserError(
            f"cannot be written ({problem.strerror})",
            topic="output",
            where=str(target),
            hint="Choose another place with --out FILE.",
        ) from None
