"""The report of a study: one HTML file that says first what was found, and tables and pictures.

    report.html   report.md   tables.tex   charts/*.svg *.png

All of it is rebuilt from outcome.json and the run folders. As in the report of a run, text of data
and models is escaped by the template, and the page's own policy forbids scripts and requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from regard.core.files import atomic_folder, write_text
from regard.evaluation import formatting
from regard.reports import findings, tables
from regard.reports.charts import run_charts, study_charts
from regard.reports.charts.attention_maps import LARGEST_MAP, attention_map
from regard.reports.charts.loss_bands import loss_by_seconds, loss_by_step, loss_by_tokens
from regard.reports.charts.picture import PAGE, Picture
from regard.reports.charts.study_charts import with_titles
from regard.reports.charts.theme import LIGHT, Chart, Theme
from regard.reports.evidence import (
    Evidence,
    LeakRecord,
    differing_settings,
    figure_keys,
    leaks_of,
    metrics_shown,
    read_evidence,
    said,
)
from regard.reports.inspection_page import AttentionSection, parts_of
from regard.reports.run_report import InlineChart, drawings, page_templates, write_page
from regard.studies.inspections import ProbeInspection, read_inspections
from regard.studies.outcome import Outcome, VariantOutcome, outcome_of

CHARTS: dict[str, Callable[..., Chart | None]] = {
    "differences": study_charts.difference_chart,
    "figures": study_charts.figure_chart,
    "by-length": study_charts.length_chart,
    "loss-by-step": loss_by_step,
    "loss-by-tokens": loss_by_tokens,
    "loss-by-seconds": loss_by_seconds,
}
PAPER_WIDTH = 860
MAP_WIDTH = 400
"Of the attention maps of one variant; two stand side by side."
LEGEND_WIDTH = 300
LEAKS_WIDTH = 280
MOST_SAMPLES = 6
"Prompts whose samples stand side by side."


def write_comparison_report(home: Path, outcome: Outcome, *, out: Path | None = None) -> Path:
    """Write the page, the tables and the charts into the study's folder; or the page to `out`."""
    # As it is read back from outcome.json: a page made later is the same page.
    evidence = read_evidence(home, outcome_of(json.loads(json.dumps(outcome.as_dict()))))
    attention = _attention(evidence)
    page = comparison_html(evidence, attention)
    if out is not None:
        write_page(out, page)
        return out
    write_text(home / "report.md", tables.markdown(evidence))
    write_text(home / "tables.tex", tables.latex(evidence))
    _write_charts(home / "charts", evidence, attention)
    write_page(home / "report.html", page)
    return home / "report.html"


@dataclass(frozen=True)
class Attention:
    """What one variant attends to in one probe sentence, or why that is not shown."""

    variant: str
    text: str
    draw: Callable[[Theme, int], Sequence[Picture]] = lambda theme, width: ()
    why_not: str = ""

    @property
    def svg(self) -> Markup:
        """In the colours of the page."""
        # Safe: every text in a picture went through `plain`, and the elements are our own.
        return Markup("").join(Markup(picture.svg()) for picture in self.draw(PAGE, MAP_WIDTH))


def comparison_html(evidence: Evidence, attention: Sequence[Attention]) -> str:
    """The page as text."""
    outcome = evidence.outcome
    metrics = metrics_shown(outcome)
    return (
        page_templates()
        .get_template("comparison.html.j2")
        .render(
            evidence=evidence,
            outcome=outcome,
            said=said,
            findings=findings,
            verdicts=findings.verdicts_by_figure(outcome),
            leaks={one.name: _leak_map(leaks_of(evidence, one)) for one in outcome.variants},
            tables=[
                (metric, figure_keys(outcome, metric), findings.baseline_rows(evidence, metric))
                for metric in metrics
            ],
            costs=tables.cost_table(outcome.variants),
            drawn={name: _drawn(draw, evidence) for name, draw in CHARTS.items()},
            probes=_side_by_side(outcome.variants, "probes", "text"),
            samples=_side_by_side(outcome.variants, "samples", "prompt")[:MOST_SAMPLES],
            attention=_by_text(attention),
            settings=differing_settings(outcome),
            better_side=study_charts.better_side(outcome),
            cost=_cost(outcome),
        )
    )


def _cost(outcome: Outcome) -> dict[str, str]:
    """Of all trainings together; a trial that won is one of them."""
    used = [(one, len([run for run in one.runs if not run.reason])) for one in outcome.variants]
    seconds = sum(n * one.seconds for one, n in used if n)
    return {
        "trainings compared": formatting.count(sum(n for _, n in used)),
        "their training time together": formatting.duration(findings.known(seconds)),
        "tuning trials": formatting.count(sum(len(one.trials) for one, _ in used) or None),
    }


def _drawn(draw: Callable[..., Chart | None], evidence: Evidence) -> list[InlineChart]:
    drawn = drawings(draw, evidence)
    return [replace(one, svg=with_titles(one.svg)) for one in drawn]


def _side_by_side(
    variants: Sequence[VariantOutcome], what: str, key: str
) -> list[tuple[str, list[tuple[VariantOutcome, dict[str, object] | None]]]]:
    """Probes or samples by their text or prompt, each with what every variant made of it."""
    rows = {one.name: list(getattr(one, what)) for one in variants}
    most = max((len(row) for row in rows.values()), default=0)
    return [
        (
            next(str(row[place][key]) for row in rows.values() if place < len(row)),
            [(one, row[place] if place < len(row := rows[one.name]) else None) for one in variants],
        )
        for place in range(most)
    ]


def _by_text(attention: Sequence[Attention]) -> dict[str, list[Attention]]:
    return {
        text: [one for one in attention if one.text == text]
        for text in dict.fromkeys(one.text for one in attention)
    }


def _attention(evidence: Evidence) -> list[Attention]:
    return [_drawable(one) for one in read_inspections(evidence.home, evidence.outcome)]


def _drawable(probe: ProbeInspection) -> Attention:
    if probe.inspected is None:
        return Attention(probe.variant, probe.text, why_not=probe.refused)
    parts = parts_of(probe.inspected)

    def draw(theme: Theme, width: int) -> list[Picture]:
        return [part.grid(theme, _snug(part, width)) for part in parts]

    return Attention(probe.variant, probe.text, draw)


def _snug(part: AttentionSection, width: int) -> int:
    """As wide as its maps and the legend need: on the page a picture may shrink."""
    heads = max(len(one.weights) for one in part.maps)
    return min(width, max(LEGEND_WIDTH, heads * (LARGEST_MAP + 12)))


def _leak_map(leaks: Sequence[LeakRecord], theme: Theme = PAGE) -> Markup | None:
    """Which position reacts to which, the strongest in full colour."""
    if not leaks:
        return None
    largest = max(one.influence for one in leaks)
    length = 1 + max(max(one.query, one.key) for one in leaks)
    influence = np.zeros((length, length))
    for one in leaks:
        influence[one.query, one.key] = one.influence / largest
    places = [str(place) for place in range(length)]
    title = "Which position reacts to which later one."
    drawn = attention_map(influence, places, places, theme=theme, width=LEAKS_WIDTH, title=title)
    # Safe: numbers only.
    return Markup(drawn.svg())


def _write_charts(folder: Path, evidence: Evidence, attention: Sequence[Attention]) -> None:
    """Each picture in light colours on white, as SVG and PNG, for papers."""
    with atomic_folder(folder) as inside:
        for name, draw in CHARTS.items():
            chart = draw(evidence, theme=LIGHT, width=PAPER_WIDTH)
            if chart is not None:
                on_white = chart.properties(background="white")
                (inside / f"{name}.svg").write_text(with_titles(run_charts.svg(on_white)))
                (inside / f"{name}.png").write_bytes(run_charts.png(on_white))
        for number, of_text in enumerate(_by_text(attention).values()):
            for one in of_text:
                for place, picture in enumerate(one.draw(LIGHT, PAPER_WIDTH)):
                    name = f"attention-{one.variant}-probe{number}" + (f"-{place}" if place else "")
                    (inside / f"{name}.svg").write_text(picture.svg())
                    (inside / f"{name}.png").write_bytes(picture.png(theme=LIGHT))
