"""The report of a study: one HTML file, verdicts first, with tables and charts beside it.

    report.html   report.md   tables.tex   charts/*.svg *.png

All of it is rebuilt from outcome.json and the run folders. As in the report of a run, the template
escapes all text from data and models, and the page's policy forbids scripts and requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from regard.audits.findings import Leak
from regard.core.errors import UserError
from regard.core.files import atomic_folder, write_output, write_text
from regard.evaluation import formatting
from regard.reports import study_text, tables
from regard.reports.charts import run_charts, study_charts
from regard.reports.charts.attention_maps import MAX_MAP_SIZE, attention_map
from regard.reports.charts.loss_bands import loss_by_seconds, loss_by_step, loss_by_tokens
from regard.reports.charts.picture import PAGE, Picture
from regard.reports.charts.study_charts import labels_to_tooltips
from regard.reports.charts.theme import LIGHT, Chart, Theme
from regard.reports.evidence import (
    Evidence,
    differing_settings,
    format_setting,
    read_evidence,
    recorded_leaks,
    score_keys,
    shown_metrics,
)
from regard.reports.inspection_page import AttentionSection, attention_sections
from regard.reports.run_report import (
    LAYOUT,
    WIDTHS,
    InlineChart,
    draw_inline_charts,
    page_templates,
)
from regard.runs.results import SampleRecord
from regard.studies.inspections import ProbeInspection, read_inspections
from regard.studies.outcome import Outcome, ProbeOutcome, VariantOutcome

CHARTS: dict[str, Callable[..., Chart | None]] = {
    "differences": study_charts.difference_chart,
    "scores": study_charts.score_chart,
    "by-length": study_charts.length_chart,
    "loss-by-step": loss_by_step,
    "loss-by-tokens": loss_by_tokens,
    "loss-by-seconds": loss_by_seconds,
}
PAPER_WIDTH = 860
MAP_WIDTH = 400
"Of one variant's attention maps; two fit side by side."
LEGEND_WIDTH = 300
LEAKS_WIDTH = 280
MAX_PROMPTS = 6
"Prompts whose samples are shown side by side."


def write_comparison_report(home: Path, outcome: Outcome, *, out: Path | None = None) -> Path:
    """Write page, tables and charts into the study's folder; or only the page to `out`."""
    evidence = read_evidence(home, outcome)
    attention = probe_attention(home, outcome)
    page = comparison_html(evidence, attention)
    if out is not None:
        write_output(out, page)
        return out
    write_text(home / "report.md", tables.markdown(evidence))
    write_text(home / "tables.tex", tables.latex(evidence))
    with suppress(UserError):  # the page says in their places that charts are not drawn
        _write_charts(home / "charts", evidence, attention)
    write_output(home / "report.html", page, creates_folder=False)
    return home / "report.html"


@dataclass(frozen=True)
class ProbeAttention:
    """One variant's attention on one probe sentence, or why there is none."""

    variant: str
    text: str
    draw: Callable[[Theme, int], Sequence[Picture]] = lambda theme, width: ()
    reason: str = ""
    "Why there are no maps."

    @property
    def svg(self) -> Markup:
        """In the page's colours."""
        # Safe: every text in a picture went through `escape_xml`, and the elements are our own.
        return Markup("").join(Markup(picture.svg()) for picture in self.draw(PAGE, MAP_WIDTH))


def comparison_html(evidence: Evidence, attention: Sequence[ProbeAttention]) -> str:
    """The page as HTML text."""
    values = comparison_values(evidence, lambda name: with_tooltips(CHARTS[name], evidence))
    return (
        page_templates()
        .get_template("comparison.html.j2")
        .render(values, attention=group_by_text(attention), layout=LAYOUT)
    )


def comparison_values(
    evidence: Evidence, drawn: Callable[[str], list[InlineChart]]
) -> dict[str, Any]:
    """What the template shows of a study; `drawn` draws a chart of CHARTS by its name."""
    outcome = evidence.outcome
    return {
        **results_values(evidence),
        "format_setting": format_setting,
        "costs": tables.cost_table(outcome.variants),
        "drawn": {name: drawn(name) for name in CHARTS},
        "probes": _side_by_side(outcome.variants, "probes", "text"),
        "samples": _side_by_side(outcome.variants, "samples", "prompt")[:MAX_PROMPTS],
        "settings": differing_settings(outcome),
        "cost": _study_cost(outcome),
        "first_run": _first_run(evidence),
    }


def results_values(evidence: Evidence) -> dict[str, Any]:
    """What templates show of a study's verdicts and scores."""
    outcome = evidence.outcome
    return {
        "evidence": evidence,
        "outcome": outcome,
        "study_text": study_text,
        "verdicts": study_text.verdicts_by_score(outcome),
        "leaks": {one.name: leak_map(recorded_leaks(evidence, one)) for one in outcome.variants},
        "tables": [
            (metric, score_keys(outcome, metric), study_text.baseline_rows(evidence, metric))
            for metric in shown_metrics(outcome)
        ],
        "better_side": study_charts.better_side(outcome),
    }


def _study_cost(outcome: Outcome) -> dict[str, str]:
    """Of all runs together; the winning tuning trials are among them."""
    used = [(one, len([run for run in one.runs if not run.reason])) for one in outcome.variants]
    seconds = sum(n * one.seconds for one, n in used if n)
    return {
        "runs compared": formatting.count(sum(n for _, n in used)),
        "total training time": formatting.duration(study_text.nan_to_none(seconds)),
        "tuning trials": formatting.count(sum(len(one.trials) for one, _ in used) or None),
    }


def _first_run(evidence: Evidence) -> str:
    """The folder of one of the study's runs."""
    folders = (run.folder for one in evidence.variants for run in one.runs if not run.reason)
    return str(evidence.home / next(folders, "VARIANT/seed-0"))


def with_tooltips(
    draw: Callable[..., Chart | None], evidence: Evidence, widths: Mapping[str, int] = WIDTHS
) -> list[InlineChart]:
    drawn = draw_inline_charts(draw, evidence, widths)
    return [replace(one, svg=labels_to_tooltips(one.svg)) for one in drawn]


def _side_by_side(
    variants: Sequence[VariantOutcome], what: str, key: str
) -> list[tuple[str, list[tuple[VariantOutcome, ProbeOutcome | SampleRecord | None]]]]:
    """Probes or samples by their text or prompt, each with the entry of every variant."""
    rows = {one.name: list(getattr(one, what)) for one in variants}
    longest = max((len(row) for row in rows.values()), default=0)
    return [
        (
            next(str(getattr(row[index], key)) for row in rows.values() if index < len(row)),
            [(one, row[index] if index < len(row := rows[one.name]) else None) for one in variants],
        )
        for index in range(longest)
    ]


def group_by_text(attention: Sequence[ProbeAttention]) -> dict[str, list[ProbeAttention]]:
    return {
        text: [one for one in attention if one.text == text]
        for text in dict.fromkeys(one.text for one in attention)
    }


def probe_attention(home: Path, outcome: Outcome) -> list[ProbeAttention]:
    """What is stored of every variant's attention on the probe sentences."""
    return [_draw_probe(one) for one in read_inspections(home, outcome)]


def _draw_probe(probe: ProbeInspection) -> ProbeAttention:
    if probe.inspection is None:
        return ProbeAttention(probe.variant, probe.text, reason=probe.reason)
    sections = attention_sections(probe.inspection)

    def draw(theme: Theme, width: int) -> list[Picture]:
        return [section.grid(theme, _section_width(section, width)) for section in sections]

    return ProbeAttention(probe.variant, probe.text, draw)


def _section_width(section: AttentionSection, width: int) -> int:
    """At most `width`, and no wider than its maps and legend need."""
    heads = max(len(one.weights) for one in section.maps)
    return min(width, max(LEGEND_WIDTH, heads * (MAX_MAP_SIZE + 12)))


def leak_map(leaks: Sequence[Leak], theme: Theme = PAGE) -> Markup | None:
    """Influence of each key on each query, relative to the largest."""
    if not leaks:
        return None
    largest = max(one.influence for one in leaks)
    length = 1 + max(max(one.query, one.key) for one in leaks)
    influence = np.zeros((length, length))
    for one in leaks:
        influence[one.query, one.key] = one.influence / largest
    positions = [str(position) for position in range(length)]
    title = "Forbidden influence of key positions on query positions."
    picture = attention_map(
        influence, positions, positions, theme=theme, width=LEAKS_WIDTH, title=title
    )
    # Safe: numbers only.
    return Markup(picture.svg())


def _write_charts(folder: Path, evidence: Evidence, attention: Sequence[ProbeAttention]) -> None:
    """Every chart in light colours on white, as SVG and PNG, for papers."""
    with atomic_folder(folder) as inside:
        for name, draw in CHARTS.items():
            chart = draw(evidence, theme=LIGHT, width=PAPER_WIDTH)
            if chart is not None:
                on_white = chart.properties(background="white")
                (inside / f"{name}.svg").write_text(
                    labels_to_tooltips(run_charts.to_svg(on_white)), encoding="utf-8"
                )
                (inside / f"{name}.png").write_bytes(run_charts.to_png(on_white))
        for number, probes in enumerate(group_by_text(attention).values()):
            for probe in probes:
                for index, picture in enumerate(probe.draw(LIGHT, PAPER_WIDTH)):
                    suffix = f"-{index}" if index else ""
                    name = f"attention-{probe.variant}-probe{number}{suffix}"
                    (inside / f"{name}.svg").write_text(picture.svg(), encoding="utf-8")
                    (inside / f"{name}.png").write_bytes(picture.png(theme=LIGHT))
