"""What a notebook shows for a result: the first part of its report, from the same templates.

Each fragment carries the report's style, nested under its own class, so that the notebook keeps its
own. It has its own background, follows the reader's light or dark colour scheme, and has no script.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from regard.audits.audit import Audit
from regard.core.html_display import HtmlDisplay
from regard.core.ledger import Ledger
from regard.reports.charts import run_charts, study_charts
from regard.reports.evidence import read_evidence
from regard.reports.run_report import (
    FRAGMENT_WIDTHS,
    draw_inline_charts,
    page_templates,
    score_tables,
)
from regard.reports.study_report import leak_map, results_values, with_tooltips
from regard.reports.versus_baselines import headlines
from regard.runs.archive.read_run import read_run
from regard.runs.archive.record import Events
from regard.runs.results import AuditRecord, EvaluationRecord
from regard.runs.run import Run
from regard.studies.outcome import Outcome


@singledispatch
def to_html(result: HtmlDisplay) -> str:
    """The result as an HTML fragment."""
    raise TypeError(f"{type(result).__name__} has no fragment")


@to_html.register
def _(run: Run) -> str:
    record = read_run(run.folder)
    results = record.results
    return _render(
        "run",
        name=record.name,
        events=record.events,
        results=results,
        invalid=bool(results and _is_invalid(results)),
        headlines=headlines(results) if results else [],
        losses=draw_inline_charts(run_charts.loss_chart, record, FRAGMENT_WIDTHS),
        dev_baselines=run_charts.dev_baselines(record),
    )


@to_html.register
def _(results: EvaluationRecord) -> str:
    return _render(
        "evaluation",
        results=results,
        events=Events(),
        invalid=_is_invalid(results),
        headlines=headlines(results),
        tables=score_tables(results.estimates),
    )


@to_html.register
def _(outcome: Outcome) -> str:
    evidence = read_evidence(outcome.folder, outcome)
    return _render(
        "study",
        **results_values(evidence),
        differences=with_tooltips(study_charts.difference_chart, evidence, FRAGMENT_WIDTHS),
    )


@to_html.register
def _(audit: AuditRecord) -> str:
    at_one_length = [leak for leak in audit.leaks if leak.where == audit.leaks[0].where]
    return _render("audit", audit=audit, leaks=leak_map(at_one_length))


@to_html.register
def _(audit: Audit) -> str:
    return to_html(AuditRecord.of_audit(audit))


@to_html.register
def _(ledger: Ledger) -> str:
    return _render("ledger", ledger=ledger)


def _is_invalid(results: EvaluationRecord) -> bool:
    return results.audit is not None and not results.audit.is_valid


def _render(kind: str, /, **values: Any) -> str:
    return page_templates().get_template(f"{kind}_fragment.html.j2").render(values)
