"""Results of a run in the terminal: the model, its baselines, and a verdict for each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from regard.cli.console import console
from regard.cli.tables import INDENT, plain_table, print_indented
from regard.evaluation.formatting import in_groups, interval, number
from regard.evaluation.health.overfitting import FitVerdict
from regard.evaluation.statistics.baseline_verdict import BaselineVerdict
from regard.runs.health_record import HealthRecord
from regard.runs.results import (
    MODEL,
    AuditRecord,
    ContaminationRecord,
    EvaluationRecord,
    ScoreRecord,
)

MAX_UNUSED_SHOWN = 3
MAX_OTHER_METRICS = 2
"Columns of other metrics next to the main one."
MIN_NAME_WIDTH = 16
SHORT_VERDICTS = {
    BaselineVerdict.BETTER: Text("better", "green"),
    BaselineVerdict.BEHIND: Text("behind", "red"),
    BaselineVerdict.NOT_DISTINGUISHABLE: Text("not distinguishable"),
    BaselineVerdict.TOO_FEW: Text("too few items"),
    BaselineVerdict.TUNED: Text("tuned here"),
}
"The baseline's name starts the line."


def print_results(results: EvaluationRecord, *, title: str) -> None:
    """Print the main metric by split with interval and n, a verdict per baseline, and remarks."""
    main, *others = dict.fromkeys(row.metric for row in results.estimates)
    columns = _other_columns(main, others)
    table = _table(results, main, columns)
    # In a narrow terminal names wrap and other metrics are dropped, but no number is truncated.
    width = console().width - INDENT
    while columns and Measurement.get(console(), console().options, table).minimum > width:
        table = _table(results, main, columns := columns[:-1])
    console().print()
    print_contamination(results.contamination)
    console().print(f"  {title}", markup=False)
    _print_audit(results.audit)
    for flaw in results.data_flaws:
        console().print(f"  {flaw}", style="yellow", markup=False, soft_wrap=True)
    _print_collapse(results.health)
    print_indented(table)
    items = next((row.items for row in results.estimates), "items")
    is_grouped = any(row.groups is not None for row in results.estimates)
    unit = f"groups of {items}" if is_grouped else items
    console().print(
        f"  n counts {items}; verdicts test paired differences over the same {unit}, for this "
        "trained model",
        style="dim",
        soft_wrap=True,
    )
    for one in results.contamination:
        text = f"  {one.all_items_sentence(main)}"
        console().print(text, style="dim", markup=False, soft_wrap=True)
    _print_subset_scores(results.estimates, main, others)
    _print_signature(results.estimates, main)
    _print_sample_flags(results.health)
    _print_overfitting(results.health)
    for remark in results.remarks:
        console().print(f"  {remark}", markup=False, soft_wrap=True)


def print_contamination(contamination: Sequence[ContaminationRecord]) -> None:
    """What stands in training, in red: it comes before every score."""
    for one in contamination:
        console().print(
            f"  CONTAMINATED  {one.sentence}", style="bold red", markup=False, soft_wrap=True
        )
        console().print(f"  {one.consequence}", style="red", markup=False, soft_wrap=True)
    if contamination:
        console().print()


def _table(results: EvaluationRecord, main: str, columns: list[str]) -> Table:
    by_key = {(row.split, row.of, row.metric): row for row in results.estimates}
    verdicts = {(row.split, row.against): row.verdict for row in results.comparisons}
    rows = [
        [
            split if of == MODEL else "",
            of if of == MODEL else f"─ {of}",
            number(row.value),
            _interval(row),
            *(_value(by_key.get((split, of, name))) for name in columns),
            f"{row.n:,}{in_groups(row.groups)}",
            SHORT_VERDICTS[verdicts[split, of]] if (split, of) in verdicts else "",
        ]
        for (split, of, metric), row in by_key.items()
        if metric == main
    ]
    others = [_label(metric) for metric in columns]
    headings = ["split", "", _label(main), "95 % interval", *others, "n", "the model is"]
    table = plain_table()
    for heading, cells in zip(headings, zip(*rows, strict=True), strict=True):
        width = max(len(cell) for cell in (heading, *cells))
        is_numeric = heading in {_label(main), *others, "n"}
        table.add_column(
            heading,
            justify="right" if is_numeric else "left",
            min_width=min(width, MIN_NAME_WIDTH) if heading == "" else width,
        )
    for row in rows:
        shown = [cell if isinstance(cell, Text) else Text(cell) for cell in row]
        table.add_row(*shown, style="bold" if row[1] == MODEL else "")
    return table


def _print_subset_scores(rows: Sequence[ScoreRecord], main: str, others: list[str]) -> None:
    """Scores over a subset of the last split, such as subjects the pretraining text names."""
    last = rows[-1].split
    model = {row.metric: row for row in rows if row.split == last and row.of == MODEL}
    for name in others:
        if name in model and main in model and model[name].n != model[main].n:
            row = model[name]
            text = f"{number(row.value)} {_interval(row)}, n = {row.n:,}{in_groups(row.groups)}"
            console().print(f"  {last}, {_label(name)}: {text}", markup=False, soft_wrap=True)


def _print_signature(rows: Sequence[ScoreRecord], main: str) -> None:
    """The signature of the main metric on the last split, for citation."""
    model = [row for row in rows if row.of == MODEL and row.metric == main]
    if model and model[-1].signature:
        console().print(f"  signature  {model[-1].signature}", style="dim", soft_wrap=True)


def _print_audit(audit: AuditRecord | None) -> None:
    """The audit's verdict in one line, in red if the results below mean nothing."""
    if audit is None:
        console().print("  audit  none: this run predates audits", style="dim")
        return
    if not audit.is_valid:
        reasons = [audit.sentence, *audit.broken]
        text = f"  INVALID  {'; '.join(reasons)}; the results below mean nothing"
        console().print(text, style="bold red", markup=False, soft_wrap=True)
        return
    console().print(f"  audit  {audit.sentence}", markup=False, soft_wrap=True)
    if unused := [one for one in audit.unused_parameters if not one.is_by_design]:
        names = ", ".join(one.name for one in unused[:MAX_UNUSED_SHOWN])
        more = len(unused) - MAX_UNUSED_SHOWN
        rest = f" and {more} more" if more > 0 else ""
        text = f"  unused parameters  {names}{rest}"
        console().print(text, style="dim", markup=False, soft_wrap=True)


def _print_collapse(health: HealthRecord | None) -> None:
    """That all predictions are one class, in red: it comes before their accuracy."""
    if health and health.predictions and health.predictions.collapsed:
        one_class = health.predictions.collapsed
        text = f"  COLLAPSED  dev: {one_class}: its scores are those of that constant prediction"
        console().print(text, style="bold red", markup=False, soft_wrap=True)


def _print_sample_flags(health: HealthRecord | None) -> None:
    """What is wrong with the samples of a language model."""
    if health and health.samples and health.samples.flags:
        text = f"  {'; '.join(health.samples.flags)}"
        console().print(text, style="yellow", markup=False, soft_wrap=True)


def _print_overfitting(health: HealthRecord | None) -> None:
    """That dev is worse than train, as its scores beside those of train look."""
    gap = health.train_dev_gap if health else None
    if gap is not None and gap.fit == FitVerdict.OVERFITTING:
        console().print(f"  {gap.sentence}", style="yellow", markup=False, soft_wrap=True)


def _other_columns(main: str, others: list[str]) -> list[str]:
    """Per-byte perplexity for language models, the next metrics for tasks."""
    if main == "perplexity":
        return ["perplexity_per_byte"]
    return others[:MAX_OTHER_METRICS]


def _label(metric: str) -> str:
    return "per byte" if metric == "perplexity_per_byte" else metric.replace("_", " ")


def _value(row: ScoreRecord | None) -> str:
    return number(None if row is None else row.value)


def _interval(row: ScoreRecord) -> str:
    if row.low is None or row.high is None:
        return f"none: {row.no_interval}"
    return interval(row.low, row.high, beside=row.value)
