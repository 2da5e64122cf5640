"""What a study found, in the terminal: what means nothing, the verdict, and then the figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.console import console

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from regard.reports.evidence import Evidence
    from regard.studies.outcome import Outcome, VariantOutcome, VerdictOutcome

LABEL = 9
"Columns that VERDICT, INVALID and their like take."
TO_FILL_IN = "the same command trains what is missing; delete the folder of a damaged run first"
LONGEST_NAME = 24
"Columns that a variant's or a baseline's name takes; longer ones go on below."
NARROW = 100
"Below so many columns the terminal shows what decides and leaves out what it cost."


def print_outcome(outcome: Outcome, report: Path) -> None:
    """Everything a person has to know without opening the report at `report`."""
    from rich.padding import Padding

    from regard.reports import study_text
    from regard.reports.evidence import read_evidence

    evidence = read_evidence(report.parent, outcome)
    console().print()
    for sentence in outcome.invalid:
        _say("INVALID", sentence, style="bold red")
    for sentence in outcome.collapsed:
        _say("COLLAPSED", sentence, style="bold red")
    if outcome.invalid or outcome.collapsed:
        console().print()
    console().print(f"  {outcome.name} · {study_text.study_size(outcome)}\n", markup=False)
    for sentence in outcome.unequal:
        _say("UNEQUAL", sentence, style="red")
    for sentence in (*outcome.missing, *evidence.unreadable_runs):
        _say("MISSING", sentence, style="yellow")
    if outcome.missing or evidence.unreadable_runs:
        _say("", TO_FILL_IN, style="dim")
    if outcome.unequal or outcome.missing or evidence.unreadable_runs:
        console().print()
    judged = study_text.verdicts_by_score(outcome)
    for figure, verdicts in judged.items():
        for one in verdicts:
            _print_verdict(one, decides=figure == outcome.decides)
    if not judged:
        _say("VERDICT", f"none: {study_text.no_verdict_reason(outcome)}")
    for remark in outcome.remarks:
        _say("", remark, style="dim")
    console().print()
    console().print(Padding(_table(evidence), (0, 0, 0, 2)))
    if evidence.sample_flags:
        console().print()
    answer = any((variant.health or {}).get("predictions") for variant in outcome.variants)
    for name, flags in evidence.sample_flags.items():
        _say("ANSWERS" if answer else "SAMPLES", f"{name}: {flags}", style="yellow")
    console().print(f"\n  report  {report}", markup=False, soft_wrap=True)


def _print_verdict(one: VerdictOutcome, *, decides: bool) -> None:
    """The deciding figure in full; the same on the other part in one line."""
    from regard.reports.study_text import short_label, verdict_sentence

    told = verdict_sentence(one)
    if one.value is None:
        if decides:
            _say("VERDICT", f"{told}: {'; '.join(one.notes)}", style="dim")
    elif decides:
        _say("VERDICT", told, style="bold green" if one.better else "bold")
        for place, note in enumerate(one.notes or (f"by {short_label(one.score_key)}",)):
            _say("", f"{short_label(one.score_key)}, {note}" if place == 0 and one.notes else note)
    else:
        first = "" if one.better or not one.notes else f" ({one.notes[0]})"
        _say("", f"{short_label(one.score_key)}: {told}{first}", style="dim")


def _say(label: str, words: str, *, style: str = "") -> None:
    """A label and a sentence; further lines of it stand under its first word."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    row = Table.grid(padding=0)
    row.add_column(width=max(LABEL, len(label) + 2), no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(Text(label, style=style), Text(words, style=style))
    console().print(Padding(row, (0, 0, 0, 2)))


def _table(evidence: Evidence) -> Table:
    """The deciding figure with its interval, the same metric on the other parts, and the cost."""
    from rich.table import Table
    from rich.text import Text

    from regard.evaluation.formatting import count, duration
    from regard.reports.evidence import score_keys
    from regard.reports.study_text import (
        audit_label,
        baseline_rows,
        format_spread,
        nan_to_none,
        short_label,
    )
    from regard.reports.versus_baselines import with_interval

    outcome = evidence.outcome
    cost = console().width >= NARROW
    metric = outcome.decides.partition(".")[2]
    keys = score_keys(outcome, metric)
    table = Table(box=None, padding=(0, 2, 0, 0))
    names = [short_label(key) if key == outcome.decides else key.partition(".")[0] for key in keys]
    table.add_column("variant", max_width=LONGEST_NAME, overflow="fold")
    for heading in ("parameters", *names, *(("time", "tokens/s") if cost else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("audit", overflow="fold", min_width=LONGEST_NAME)
    for variant in outcome.variants:
        told = {key: format_spread(variant.estimates.get(key)) for key in keys}
        table.add_row(
            Text(variant.name),
            _sizes(variant),
            *(_figure(told[key], key == outcome.decides, variant.is_ranked) for key in keys),
            *(
                (
                    duration(nan_to_none(variant.seconds)),
                    count(nan_to_none(variant.tokens_per_second)),
                )
                * cost
            ),
            Text(audit_label(variant), style="" if variant.is_ranked else "bold red"),
        )
    for of, figures, standing in baseline_rows(evidence, metric):
        shown = [with_interval(figures[key]) if key in figures else "" for key in keys]
        table.add_row(
            Text(f"─ {of}"),
            "",
            *(_figure(text, keys[n] == outcome.decides, True) for n, text in enumerate(shown)),
            *(("", "") * cost),
            Text(f"baseline: {standing}" if standing else "baseline"),
            style="dim",
        )
    return table


def _figure(text: str, decides: bool, valid: bool) -> Text:
    """The interval only where it decides; what means nothing in parentheses, and struck."""
    from rich.text import Text

    shown = text if decides else text.partition(" [")[0]
    return Text(shown) if valid else Text(f"({shown})", style="strike")


def _sizes(variant: VariantOutcome) -> str:
    """`1.13 M`, or `770 of 22.71 M` where so many were trained."""
    whole = _size(variant.parameters)
    return whole if variant.trained is None else f"{_size(variant.trained)} of {whole}"


def _size(parameters: int) -> str:
    """`1.13 M`"""
    return f"{parameters / 1e6:,.2f} M" if parameters >= 1e5 else f"{parameters:,}"
