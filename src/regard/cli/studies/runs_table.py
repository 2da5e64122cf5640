"""The table of `regard runs`: one line per run, the columns that fit, remarks below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from rich.cells import cell_len
from rich.text import Text

from regard.cli.console import console
from regard.evaluation.formatting import ABSENT, count, join_words, memory_size, number, quantity
from regard.runs.archive.index import INVALID, ListedRun, RunState

COLUMNS = {
    "run": "run",
    "state": "state",
    "family": "model.family",
    "attention": "model.attention.kind",
    "parameters": "parameters",
    "steps": "steps",
    "seed": "train.seed",
    "on dev": "metric",
    "audit": "audit",
    "finished": "finished",
    "size": "size",
}
"Key of each column, by heading."
NUMERIC_COLUMNS = {"parameters", "steps", "seed", "on dev", "size"}
DROPPED_FIRST = ("family", "seed", "finished", "parameters", "steps", "attention")
"Columns dropped in this order if the terminal is too narrow."
GAP = 2
"Spaces between columns."
Cell: TypeAlias = tuple[str, str]
"Text and style."


def print_runs(selected: Sequence[ListedRun], *, matching: int, total: int) -> None:
    """One line per run, the columns that fit, and remarks below."""
    say = console().print
    if not selected:
        say("no runs" if not total else f"none of {quantity(total, 'runs')} matches")
        return
    dropped = _print_rows(selected)
    for run in selected:
        if why := run.facts.get("why"):
            say(f"damaged  {why}", style="red", markup=False, soft_wrap=True)
    if len(selected) < total:
        more = f", {matching:,} match" if matching > len(selected) else ""
        say(f"{len(selected):,} of {quantity(total, 'runs')}{more}", style="dim")
    if dropped:
        say(f"not shown: {join_words(dropped)}; --json has all", style="dim", soft_wrap=True)
    if len({_dev_fingerprint(run) for run in selected if "dev.perplexity" in run.facts}) > 1:
        say(
            "These runs differ in tokenizer or dev documents: their perplexities cannot be "
            "compared with each other.",
            style="yellow",
            soft_wrap=True,
        )


def _dev_fingerprint(run: ListedRun) -> tuple[Any, Any]:
    """Identifies the tokens that a dev perplexity was computed on."""
    return run.facts.get("dev.fingerprint"), run.facts.get("tokenizer.fingerprint")


def _print_rows(selected: Sequence[ListedRun]) -> list[str]:
    """Print the table and return the dropped columns. Rich tables are too slow for many rows."""
    headings = [h for h, key in COLUMNS.items() if key != "size" or key in selected[0].facts]
    columns = {h: [(h, "dim"), *(_cell(run, h) for run in selected)] for h in headings}
    widths = {h: max(cell_len(text) for text, _ in columns[h]) for h in headings}
    dropped = []
    for heading in DROPPED_FIRST:
        if sum(widths[h] + GAP for h in headings) - GAP > console().width:
            headings.remove(heading)
            dropped.append(heading)
    with console():  # one write instead of one per line
        for row in zip(*(columns[h] for h in headings), strict=True):
            line = Text()
            for heading, (text, style) in zip(headings, row, strict=True):
                space = " " * (widths[heading] - cell_len(text))
                line.append(space + text if heading in NUMERIC_COLUMNS else text + space, style)
                line.append(" " * GAP)
            line.rstrip()
            console().print(line, soft_wrap=True)
    return dropped


def _cell(run: ListedRun, heading: str) -> Cell:
    value = run.facts.get(COLUMNS[heading])
    invalid = run.facts.get("audit") == INVALID
    if value is None:
        return ABSENT, "dim"
    text = str(value).replace("\n", " ")
    if heading == "state":
        return text, {RunState.DAMAGED: "red", RunState.UNFINISHED: "yellow"}.get(run.state, "")
    if heading == "audit":
        return text, "bold red" if invalid else ""
    if heading == "finished":
        return text[:16].replace("T", " "), ""
    if heading == "steps":
        return progress_text(run), ""
    if heading == "on dev":
        return _dev_score(run)
    formats = {"parameters": count, "size": memory_size}
    if heading in formats and isinstance(value, int | float):  # the type is not validated here
        text = formats[heading](value)
    return text, ""


def _dev_score(run: ListedRun) -> Cell:
    """`accuracy 0.891`: the main score on dev, marked if it means nothing."""
    name = str(run.facts["metric"])
    value = run.facts.get(f"dev.{name}")
    if not isinstance(value, int | float):
        return ABSENT, "dim"
    text = f"{name.replace('_', ' ')} {number(value)}"
    if run.facts.get("collapsed"):
        return f"COLLAPSED {text}", "bold red"
    return text, "red" if run.facts.get("audit") == INVALID else ""


def progress_text(run: ListedRun) -> str:
    """`500`, or `120 of 500` if unfinished."""
    counts = [run.facts.get(key) for key in ("steps", "steps_planned")]
    return " of ".join(f"{steps:,}" for steps in counts if isinstance(steps, int))
