"""A study's main results as Markdown for notes and as LaTeX (booktabs) for papers.

User text is escaped for each. Scores of a variant that leaks, predicts one class for every row, or
diverged with a seed, are struck through in Markdown and replaced by the reason in LaTeX.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regard.evaluation.formatting import (
    capitalise,
    count,
    duration,
    memory_size,
    number,
    with_interval,
)
from regard.reports.evidence import Evidence, score_keys, shown_metrics
from regard.reports.study_text import (
    audit_label,
    baseline_rows,
    long_label,
    look_rows,
    nan_to_none,
    no_verdict_reason,
    short_label,
    study_size,
    verdict_sentence,
    verdicts_by_score,
)
from regard.studies.outcome import Outcome, VariantOutcome

LATEX = {
    "\\": r"\textbackslash{}",
    **{mark: rf"\{mark}" for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    # pdfLaTeX has none of these as text.
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
    """Headings and rows of plain text; the first column has the names."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    baselines: tuple[tuple[str, ...], ...] = ()
    struck: Mapping[str, str] = field(default_factory=dict)
    "Names whose scores are struck, each with the reason in one word."
    score_columns: range = range(0)
    "The columns of scores, which are struck."


def results_table(evidence: Evidence) -> ResultsTable:
    """Variants and baselines on every split, with intervals over seeds and items."""
    outcome, metrics = evidence.outcome, shown_metrics(evidence.outcome)
    keys = [key for metric in metrics for key in score_keys(outcome, metric)]
    rows = [
        (
            variant.name,
            parameter_count(variant),
            *(with_interval(variant.estimates.get(key)) for key in keys),
            audit_label(variant),
        )
        for variant in outcome.variants
    ]
    struck = {one.name: audit_label(one).lower() for one in outcome.variants if not one.is_ranked}
    if not outcome.is_trained:
        return ResultsTable(
            headings=("variant", *map(short_label, keys)),
            rows=tuple((row[0], *row[2:-1]) for row in rows),
            struck=struck,
            score_columns=range(1, 1 + len(keys)),
        )
    baselines: dict[str, dict[str, str]] = {}
    for metric in metrics:
        for of, scores, _ in baseline_rows(evidence, metric):
            cells = baselines.setdefault(of, {})
            cells |= {key: with_interval(score) for key, score in scores.items()}
    return ResultsTable(
        headings=("variant", "parameters", *map(short_label, keys), "audit"),
        rows=tuple(rows),
        baselines=tuple(
            (of, "", *(cells.get(key, "") for key in keys), "baseline")
            for of, cells in baselines.items()
        ),
        struck=struck,
        score_columns=range(2, 2 + len(keys)),
    )


def cost_table(variants: Sequence[VariantOutcome]) -> ResultsTable:
    """The cost of one run of each variant, a mean over seeds where they differ."""
    headings = (
        *("variant", "parameters", "steps", "tokens", "operations", "time", "tokens/s"),
        *("peak memory", "last training loss"),
    )
    rows = [
        (
            one.name,
            parameter_count(one),
            count(one.steps or None),
            count(one.tokens or None),
            total_operations(one),
            duration(nan_to_none(one.seconds)),
            count(nan_to_none(one.tokens_per_second)),
            memory_size(nan_to_none(one.peak_memory_bytes)),
            number(nan_to_none(one.final_loss)),
        )
        for one in variants
    ]
    return ResultsTable(headings, tuple(rows))


def parameter_count(variant: VariantOutcome) -> str:
    """`22,713,216`, or `770 of 22,713,216` with an adapter that trains 770."""
    total = count(variant.parameters or None)
    return total if variant.trained is None else f"{count(variant.trained)} of {total}"


def total_operations(variant: VariantOutcome) -> str:
    """Operations of the whole training: `2.36 × 10¹⁰`."""
    total = variant.operations * variant.steps
    if not total > 0:
        return "–"
    digits, _, power = f"{total:.2e}".partition("e")
    return f"{digits} × 10{str(int(power)).translate(TO_SUPERSCRIPT)}"


SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
TO_SUPERSCRIPT = str.maketrans("0123456789-", SUPERSCRIPTS)
FROM_SUPERSCRIPT = str.maketrans(SUPERSCRIPTS, "0123456789-")


def markdown(evidence: Evidence) -> str:
    """The content of report.md."""
    outcome = evidence.outcome
    lines = [f"# {_escape_markdown(outcome.name)}", ""]
    if outcome.question:
        lines += [_escape_markdown(outcome.question), ""]
    lines += [f"{study_size(outcome)}; {short_label(outcome.decides)} decides.", ""]
    for one in outcome.contamination:
        overlap = one.overlap
        text = f"{overlap.sentence}: {overlap.consequence}"
        lines += [f"**CONTAMINATED** {_escape_markdown(text)}\n"]
    lines += [f"**INVALID** {_escape_markdown(one)}\n" for one in outcome.invalid]
    lines += [f"**COLLAPSED** {_escape_markdown(one)}\n" for one in outcome.collapsed]
    lines += [f"**DIVERGED** {_escape_markdown(one)}\n" for one in outcome.diverged]
    lines += _markdown_list("Data", [one.removeprefix("data: ") for one in outcome.data_flaws])
    judged = verdicts_by_score(outcome)
    for score_key, verdicts in judged.items():
        lines += [f"## {long_label(score_key)}", ""]
        for verdict in verdicts:
            lines += [f"**{_escape_markdown(verdict_sentence(verdict))}**", ""]
            lines += [f"- {_escape_markdown(note)}" for note in verdict.notes]
            lines += [""] if verdict.notes else []
    if not judged:
        lines += [no_verdict_reason(outcome), ""]
    lines += _markdown_list("Not equal", outcome.unequal)
    lines += _markdown_list("Missing", [*outcome.missing, *evidence.unreadable_runs])
    lines += _markdown_list("Remarks", outcome.remarks)
    if rows := look_rows(outcome):
        headings = ("look", "seeds", "tested at", "abs t above", short_label(outcome.decides))
        lines += ["## Planned looks", "", _markdown_table(ResultsTable(headings, tuple(rows))), ""]
    lines += ["## Results", "", _markdown_table(results_table(evidence)), ""]
    lines += ["In brackets: 95 % intervals, over seeds and items for variants.", ""]
    comparisons = [
        f"{of}: {verdict}"
        for metric in shown_metrics(outcome)
        for of, _, verdict in baseline_rows(evidence, metric)
        if verdict
    ]
    deciding_split = outcome.decides.partition(".")[0]
    lines += _markdown_list(f"Comparison with baselines, on {deciding_split}", comparisons)
    if outcome.is_trained:
        lines += ["## Cost", "", _markdown_table(cost_table(outcome.variants)), ""]
        lines += [f"{capitalise(outcome.efficiency.sentence)}.", ""] if outcome.efficiency else []
    lines += ["## To reproduce", "", f"    {outcome.command}"]
    return "\n".join(lines) + "\n"


def latex(evidence: Evidence) -> str:
    """The content of tables.tex: tables for booktabs."""
    outcome = evidence.outcome
    seeds = len(outcome.seeds)
    verdicts = "; ".join(
        verdict_sentence(one) for one in outcome.verdicts if one.score_key == outcome.decides
    )
    caption = (
        f"{outcome.name}: results with 95 % intervals over {seeds} seeds and items; "
        f"{short_label(outcome.decides)} decides" + (f": {verdicts}" if verdicts else "")
    )
    return "\n".join(
        (
            r"% Needs \usepackage{booktabs}; \usepackage{graphicx} where a table is too wide.",
            f"% Made by: {_one_line(outcome.command)}",
            _latex_table(results_table(evidence), caption=caption, label="results"),
            "",
            *(_latex_costs(outcome) if outcome.is_trained else ()),
        )
    )


def _latex_costs(outcome: Outcome) -> tuple[str, str]:
    costs = cost_table(outcome.variants)
    return _latex_table(costs, caption=f"{outcome.name}: cost", label="cost"), ""


def _escape_markdown(text: str) -> str:
    """Text as Markdown that renders verbatim: no markup, no link, one line."""
    return re.sub(r"([\\`*_<>|#~]|\](?=\())", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _markdown_list(title: str, sentences: Sequence[str]) -> list[str]:
    return (
        [f"## {title}", "", *(f"- {_escape_markdown(one)}" for one in sentences), ""]
        if sentences
        else []
    )


def _markdown_table(table: ResultsTable) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def cell(name: str, column: int, text: str) -> str:
        struck = name in table.struck and column in table.score_columns
        return f"~~{_escape_markdown(text)}~~" if struck else _escape_markdown(text)

    aligned = ["---", *["---:"] * (len(table.headings) - 1)]
    rows = [
        [cell(row[0], column, text) for column, text in enumerate(row)] for row in table.rows
    ] + [
        [f"*{_escape_markdown(row[0])}*", *map(_escape_markdown, row[1:])]
        for row in table.baselines
    ]
    return "\n".join(map(line, [list(table.headings), aligned, *rows]))


def _escape_latex(text: str) -> str:
    """Text as LaTeX that prints verbatim."""
    escaped = "".join(LATEX.get(character, character) for character in text)
    return re.sub(
        f"[{SUPERSCRIPTS}]+", lambda run: f"$^{{{run[0].translate(FROM_SUPERSCRIPT)}}}$", escaped
    )


def _latex_table(table: ResultsTable, *, caption: str, label: str) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"    {' & '.join(cells)} \\\\"

    def cell(name: str, column: int, text: str) -> str:
        struck = name in table.struck and column in table.score_columns
        return rf"\emph{{{table.struck[name]}}}" if struck else _escape_latex(text)

    rows = [
        line([cell(row[0], column, text) for column, text in enumerate(row)]) for row in table.rows
    ]
    if table.baselines:
        rows += [r"    \midrule", *(line(list(map(_escape_latex, row))) for row in table.baselines)]
    return "\n".join(
        (
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{_escape_latex(caption)}}}",
            rf"  \label{{tab:{label}}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(table.headings) - 1)}}}",
            r"    \toprule",
            line(list(map(_escape_latex, table.headings))),
            r"    \midrule",
            *rows,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        )
    )
