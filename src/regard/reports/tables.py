"""A study's main figures as Markdown for notes and as LaTeX (booktabs) for papers.

Text of a person is escaped for each; figures of a variant that cheats, or answers one class for
every row, are struck through, or left out where paper has no such stroke.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regard.evaluation.formatting import count, duration, memory_size, number
from regard.reports.evidence import Evidence, figure_keys, metrics_shown
from regard.reports.findings import (
    audit_word,
    baseline_rows,
    known,
    long_name,
    nothing_judged,
    sentence,
    short_name,
    size_of,
    spread_text,
    verdicts_by_figure,
)
from regard.reports.versus_baselines import with_interval
from regard.studies.outcome import VariantOutcome

LATEX = {
    "\\": r"\textbackslash{}",
    **{mark: rf"\{mark}" for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    # pdfLaTeX knows none of these as text.
    "−": "$-$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "∞": r"$\infty$",
    "–": "--",
    "…": r"\ldots{}",
    "\n": " ",
}


@dataclass(frozen=True)
class ResultsTable:
    """Headings and rows of plain text; the first column holds names."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    baselines: tuple[tuple[str, ...], ...] = ()
    struck: Mapping[str, str] = field(default_factory=dict)
    "Names whose figures are struck, each with the word that says why."
    figures: range = range(0)
    "The columns of measured figures, the ones that are struck."


def figure_table(evidence: Evidence) -> ResultsTable:
    """Variants and baselines on every part, with intervals over seeds and items."""
    outcome, metrics = evidence.outcome, metrics_shown(evidence.outcome)
    keys = [key for metric in metrics for key in figure_keys(outcome, metric)]
    rows = [
        (
            variant.name,
            sizes(variant),
            *(spread_text(variant.figures.get(key)) for key in keys),
            audit_word(variant),
        )
        for variant in outcome.variants
    ]
    baselines: dict[str, dict[str, str]] = {}
    for metric in metrics:
        for of, figures, _ in baseline_rows(evidence, metric):
            shown = baselines.setdefault(of, {})
            shown |= {key: with_interval(one) for key, one in figures.items()}
    return ResultsTable(
        headings=("variant", "parameters", *map(short_name, keys), "audit"),
        rows=tuple(rows),
        baselines=tuple(
            (of, "", *(shown.get(key, "") for key in keys), "baseline")
            for of, shown in baselines.items()
        ),
        struck={one.name: audit_word(one).lower() for one in outcome.variants if not one.is_ranked},
        figures=range(2, 2 + len(keys)),
    )


def cost_table(variants: Sequence[VariantOutcome]) -> ResultsTable:
    """What each variant took, as a mean over its seeds where seeds differ."""
    headings = (
        *("variant", "parameters", "steps", "tokens", "operations", "time", "tokens/s"),
        *("peak memory", "last training loss"),
    )
    rows = [
        (
            one.name,
            sizes(one),
            count(one.steps or None),
            count(one.tokens or None),
            operations(one),
            duration(known(one.seconds)),
            count(known(one.tokens_per_second)),
            memory_size(known(one.peak_memory_bytes)),
            number(known(one.final_loss)),
        )
        for one in variants
    ]
    return ResultsTable(headings, tuple(rows))


def sizes(variant: VariantOutcome) -> str:
    """`22,713,216`, or `770 of 22,713,216` where so many were trained."""
    whole = count(variant.parameters or None)
    return whole if variant.trained is None else f"{count(variant.trained)} of {whole}"


def operations(variant: VariantOutcome) -> str:
    """Of the whole training: `2.36 × 10¹⁰`."""
    total = variant.operations * variant.steps
    if not total > 0:
        return "–"
    digits, _, power = f"{total:.2e}".partition("e")
    return f"{digits} × 10{str(int(power)).translate(RAISED)}"


SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
RAISED = str.maketrans("0123456789-", SUPERSCRIPTS)
LOWERED = str.maketrans(SUPERSCRIPTS, "0123456789-")


def markdown(evidence: Evidence) -> str:
    """The whole of report.md."""
    outcome = evidence.outcome
    lines = [f"# {_md(outcome.name)}", ""]
    if outcome.question:
        lines += [_md(outcome.question), ""]
    lines += [f"{size_of(outcome)}; {short_name(outcome.decides)} decides.", ""]
    lines += [f"**INVALID** {_md(one)}\n" for one in outcome.invalid]
    lines += [f"**COLLAPSED** {_md(one)}\n" for one in outcome.collapsed]
    judged = verdicts_by_figure(outcome)
    for figure, verdicts in judged.items():
        lines += [f"## {long_name(figure)}", ""]
        for one in verdicts:
            lines += [f"**{_md(sentence(one))}**", ""]
            lines += [f"- {_md(note)}" for note in one.notes]
            lines += [""] if one.notes else []
    if not judged:
        lines += [nothing_judged(outcome), ""]
    lines += _listed_in_md("Not equal", outcome.unequal)
    lines += _listed_in_md("Missing", [*outcome.missing, *evidence.unread])
    lines += _listed_in_md("Remarks", outcome.remarks)
    lines += ["## Figures", "", _md_table(figure_table(evidence)), ""]
    lines += ["In brackets: 95 % intervals, for variants over seeds and items.", ""]
    standings = [
        f"{of}: {standing}"
        for metric in metrics_shown(outcome)
        for of, _, standing in baseline_rows(evidence, metric)
        if standing
    ]
    decides = outcome.decides.partition(".")[0]
    lines += _listed_in_md(f"Against the baselines, on {decides}", standings)
    lines += ["## Cost", "", _md_table(cost_table(outcome.variants)), ""]
    lines += ["## To reproduce", "", f"    {outcome.command}"]
    return "\n".join(lines) + "\n"


def latex(evidence: Evidence) -> str:
    """The whole of tables.tex: two tables for booktabs."""
    outcome = evidence.outcome
    seeds = len(outcome.seeds)
    told = "; ".join(sentence(one) for one in outcome.verdicts if one.figure == outcome.decides)
    caption = (
        f"{outcome.name}: figures with 95 % intervals over {seeds} seeds and items; "
        f"{short_name(outcome.decides)} decides" + (f": {told}" if told else "")
    )
    return "\n".join(
        (
            r"% Needs \usepackage{booktabs}; \usepackage{graphicx} where a table is too wide.",
            f"% Made by: {_one_line(outcome.command)}",
            _latex_table(figure_table(evidence), caption=caption, label="figures"),
            "",
            _latex_table(
                cost_table(outcome.variants), caption=f"{outcome.name}: cost", label="cost"
            ),
            "",
        )
    )


def _md(text: str) -> str:
    """Text as Markdown that shows exactly it: no markup, no link, one line."""
    return re.sub(r"([\\`*_<>|#~]|\](?=\())", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _listed_in_md(title: str, sentences: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *(f"- {_md(one)}" for one in sentences), ""] if sentences else []


def _md_table(table: ResultsTable) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def cell(name: str, column: int, text: str) -> str:
        struck = name in table.struck and column in table.figures
        return f"~~{_md(text)}~~" if struck else _md(text)

    aligned = ["---", *["---:"] * (len(table.headings) - 1)]
    rows = [
        [cell(row[0], column, text) for column, text in enumerate(row)] for row in table.rows
    ] + [[f"*{_md(row[0])}*", *map(_md, row[1:])] for row in table.baselines]
    return "\n".join(map(line, [list(table.headings), aligned, *rows]))


def _tex(text: str) -> str:
    """Text as LaTeX that prints exactly it."""
    escaped = "".join(LATEX.get(one, one) for one in text)
    return re.sub(f"[{SUPERSCRIPTS}]+", lambda run: f"$^{{{run[0].translate(LOWERED)}}}$", escaped)


def _latex_table(table: ResultsTable, *, caption: str, label: str) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"    {' & '.join(cells)} \\\\"

    def cell(name: str, column: int, text: str) -> str:
        struck = name in table.struck and column in table.figures
        return rf"\emph{{{table.struck[name]}}}" if struck else _tex(text)

    rows = [
        line([cell(row[0], column, text) for column, text in enumerate(row)]) for row in table.rows
    ]
    if table.baselines:
        rows += [r"    \midrule", *(line(list(map(_tex, row))) for row in table.baselines)]
    return "\n".join(
        (
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{_tex(caption)}}}",
            rf"  \label{{tab:{label}}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(table.headings) - 1)}}}",
            r"    \toprule",
            line(list(map(_tex, table.headings))),
            r"    \midrule",
            *rows,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        )
    )
