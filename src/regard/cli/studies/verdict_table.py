"""The outcome of a study in the terminal: invalid variants, verdicts, then the score table."""

from __future__ import annotations

from pathlib import Path

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from regard.cli.console import console
from regard.cli.tables import INDENT, plain_table, print_indented
from regard.evaluation.formatting import count, duration, quantity, with_interval
from regard.reports.evidence import Evidence, read_evidence, score_keys
from regard.reports.study_text import (
    all_items_sentence,
    audit_label,
    baseline_rows,
    nan_to_none,
    no_verdict_reason,
    short_label,
    study_size,
    verdict_sentence,
    verdicts_by_score,
    without_verdict,
)
from regard.studies.outcome import Outcome, VariantOutcome, VerdictOutcome

LABEL_WIDTH = 9
"Width of labels such as VERDICT and INVALID."
HOW_TO_COMPLETE = "the same command trains missing runs; delete the folder of a damaged run first"
MAX_NAME_WIDTH = 24
"Width of names of variants and baselines; longer ones wrap."


def print_outcome(outcome: Outcome, report: Path) -> None:
    """Print what the report at `report` says first."""
    evidence = read_evidence(report.parent, outcome)
    console().print()
    for one in outcome.contamination:
        _say("CONTAMINATED", one.overlap.sentence, style="bold red")
        _say("", one.overlap.consequence, style="red")
    if outcome.missing:
        left_out = quantity(len(outcome.missing), "runs")
        _say("INCOMPLETE", f"{left_out} missing, as said below", style="bold red")
    for sentence in outcome.invalid:
        _say("INVALID", sentence, style="bold red")
    for sentence in outcome.collapsed:
        _say("COLLAPSED", sentence, style="bold red")
    for sentence in outcome.diverged:
        _say("DIVERGED", sentence, style="bold red")
    if outcome.contamination or outcome.invalid or outcome.collapsed or outcome.diverged:
        console().print()
    console().print(f"  {outcome.name} · {study_size(outcome)}\n", markup=False)
    for sentence in outcome.unequal:
        _say("UNEQUAL", sentence, style="red")
    for sentence in (*outcome.missing, *evidence.unreadable_runs):
        _say("MISSING", sentence, style="yellow")
    if outcome.missing or evidence.unreadable_runs:
        _say("", HOW_TO_COMPLETE, style="dim")
    if outcome.unequal or outcome.missing or evidence.unreadable_runs:
        console().print()
    for flaw in outcome.data_flaws:
        _say("DATA", flaw.removeprefix("data: "), style="yellow")
    if outcome.data_flaws:
        console().print()
    judged = verdicts_by_score(outcome)
    for score_key, verdicts in judged.items():
        for verdict in verdicts:
            _print_verdict(verdict, decides=score_key == outcome.decides)
    if not judged:
        _say("VERDICT", f"none: {no_verdict_reason(outcome)}")
    for remark in outcome.remarks:
        _say("", remark, style="dim")
    console().print()
    table = _table(evidence, with_cost=True)
    if Measurement.get(console(), console().options, table).minimum > console().width - INDENT:
        table = _table(evidence, with_cost=False)
    print_indented(table)
    for one in outcome.contamination:
        _say("", all_items_sentence(one, outcome), style="dim")
    if evidence.sample_flags:
        console().print()
    predicts = any(variant.health and variant.health.predictions for variant in outcome.variants)
    for name, flags in evidence.sample_flags.items():
        _say("ANSWERS" if predicts else "SAMPLES", f"{name}: {flags}", style="yellow")
    if outcome.efficiency is not None:
        console().print()
        _say("", outcome.efficiency.sentence, style="dim")
    console().print(f"\n  report  {report}", markup=False, soft_wrap=True)


def _print_verdict(verdict: VerdictOutcome, *, decides: bool) -> None:
    """The verdict on the deciding score in full, on the other split in one line."""
    sentence, score = verdict_sentence(verdict), short_label(verdict.score_key)
    if verdict.value is None:
        if decides:
            _say("VERDICT", without_verdict(verdict), style="dim")
    elif decides:
        _say("VERDICT", sentence, style="bold green" if verdict.better else "bold")
        for number, note in enumerate(verdict.notes or (f"by {score}",)):
            _say("", f"{score}, {note}" if number == 0 and verdict.notes else note)
    else:
        first = "" if verdict.better or not verdict.notes else f" ({verdict.notes[0]})"
        _say("", f"{score}: {sentence}{first}", style="dim")


def _say(label: str, text: str, *, style: str = "") -> None:
    """A label and a sentence with a hanging indent."""
    row = Table.grid(padding=0)
    row.add_column(width=max(LABEL_WIDTH, len(label) + 2), no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(Text(label, style=style), Text(text, style=style))
    print_indented(row)


def _table(evidence: Evidence, *, with_cost: bool) -> Table:
    """The deciding score with its interval, the same metric on other splits, and the cost."""
    outcome = evidence.outcome
    metric = outcome.decides.partition(".")[2]
    keys = score_keys(outcome, metric)
    table = plain_table()
    names = [short_label(key) if key == outcome.decides else key.partition(".")[0] for key in keys]
    table.add_column("variant", max_width=MAX_NAME_WIDTH, overflow="fold")
    if not outcome.is_trained:
        for heading in names:
            table.add_column(heading, justify="right", no_wrap=True)
        for variant in outcome.variants:
            values = [with_interval(variant.estimates.get(key)) for key in keys]
            table.add_row(
                Text(variant.name), *(_score(value, True, variant.is_ranked) for value in values)
            )
        return table
    for heading in ("parameters", *names, *(("time", "tokens/s") if with_cost else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("audit", overflow="fold", min_width=MAX_NAME_WIDTH)
    for variant in outcome.variants:
        scores = {key: with_interval(variant.estimates.get(key)) for key in keys}
        table.add_row(
            Text(variant.name),
            _parameters(variant),
            *(_score(scores[key], key == outcome.decides, variant.is_ranked) for key in keys),
            *(
                (
                    duration(nan_to_none(variant.seconds)),
                    count(nan_to_none(variant.tokens_per_second)),
                )
                * with_cost
            ),
            Text(audit_label(variant), style="" if variant.is_ranked else "bold red"),
        )
    for name, estimates, comparison in baseline_rows(evidence, metric):
        scores = {key: with_interval(estimates[key]) if key in estimates else "" for key in keys}
        table.add_row(
            Text(f"─ {name}"),
            "",
            *(_score(scores[key], key == outcome.decides, True) for key in keys),
            *(("", "") * with_cost),
            Text(f"baseline: {comparison}" if comparison else "baseline"),
            style="dim",
        )
    return table


def _score(text: str, decides: bool, valid: bool) -> Text:
    """With interval only if it decides; in parentheses and struck through if invalid."""
    shown = text if decides else text.partition(" [")[0]
    return Text(shown) if valid else Text(f"({shown})", style="strike")


def _parameters(variant: VariantOutcome) -> str:
    """`1.13 M`, or `770 of 22.71 M` if only those are trained; unknown without a finished run."""
    if not variant.parameters:
        return "–"
    total = _millions(variant.parameters)
    return total if variant.trained is None else f"{_millions(variant.trained)} of {total}"


def _millions(parameters: int) -> str:
    """`1.13 M`, or all digits below 0.1 M."""
    return f"{parameters / 1e6:,.2f} M" if parameters >= 1e5 else f"{parameters:,}"
