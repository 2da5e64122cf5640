"""`regard runs`: list, filter, sort and delete the runs below a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from regard.cli.console import AsJson, OnProgress, console, print_json, progress_bar, side_console
from regard.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from regard.runs.archive.filters import Condition
    from regard.runs.archive.index import ListedRun

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
MIN_RUNS_FOR_BAR = 200
"Number of folders from which on reading shows a progress bar."
MAX_LISTED = 20
"Runs listed before the confirmation of --delete."
RECENT_SECONDS = 600.0
"A run written to within this time may still be training."


def runs(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Runs or folders of runs; * and ? are wildcards."),
    ] = None,
    root: Annotated[Path, typer.Option("--in", help="Folder of the runs.")] = Path("runs"),
    where: Annotated[
        list[str] | None,
        typer.Option(help="Filter: train.seed=0, dev.perplexity<120, …; repeatable."),
    ] = None,
    state: Annotated[str | None, typer.Option(help="finished, unfinished or damaged.")] = None,
    sort: Annotated[str, typer.Option(help="Key to sort by; -KEY: descending.")] = "run",
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of runs.")] = None,
    sizes: Annotated[bool, typer.Option("--sizes", help="Add the size on disk (slower).")] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the selected runs, after confirmation.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """List, filter, sort and delete runs."""
    from regard.runs.archive.filters import Condition, filter_runs, sort_runs

    conditions = [Condition.parse(text) for text in where or ()]
    if delete and not (names or conditions or state):
        raise UserError(
            "--delete without a filter would delete every run",
            topic="runs",
            hint="Name runs, or give --where or --state; '*' selects all.",
        )
    every = _list_runs(root)
    matching = _in_state(_select(every, names or (), root=root), state)
    if sizes:
        matching = [_with_size(run) for run in matching]
    matching = sort_runs(filter_runs(matching, conditions), sort)
    selected = matching[:limit]
    if delete:
        checked = [condition for condition in conditions if condition.key != "size"]
        named = frozenset(_relative_name(name, root) for name in names or ())
        _delete(selected, every, conditions=checked, named=named, yes=yes, root=root)
        if as_json:
            print_json({"deleted": [run.name for run in selected]})
    elif as_json:
        print_json([{"folder": str(run.folder), **run.facts} for run in selected])
    else:
        _print_table(selected, matching=len(matching), total=len(every))


def _list_runs(root: Path) -> list[ListedRun]:
    """Every run below `root`, with a progress bar if there are many."""
    from regard.runs.archive.index import list_runs

    with ExitStack() as bars:
        bar: OnProgress | None = None

        def on_progress(done: int, total: int) -> None:
            nonlocal bar
            if bar is None and total >= MIN_RUNS_FOR_BAR:
                bar = bars.enter_context(progress_bar("reading runs"))
            if bar is not None:
                bar(done, total)

        found = list_runs(root, on_progress=on_progress)
    if not found and (root / "recipe.toml").is_file():
        raise UserError(
            "is a run itself",
            topic="runs",
            where=str(root),
            hint=f"Give its parent folder: --in {root.resolve().parent}",
        )
    return found


def _select(every: list[ListedRun], names: Sequence[str], *, root: Path) -> list[ListedRun]:
    """The runs matching a name, a wildcard pattern or a folder; without names, all."""
    if not names:
        return every
    selected: set[str] = set()
    for name in names:
        pattern = _relative_name(name, root)
        matched = [
            run.name
            for run in every
            if run.name == pattern
            or run.name.startswith(f"{pattern}/")
            or fnmatchcase(run.name, pattern)
        ]
        if not matched:
            close = did_you_mean(pattern, [run.name for run in every])
            hint = close if "did you mean" in close else ""
            raise UserError(f"no run {name} below {root}{hint}", topic="runs")
        selected |= set(matched)
    return [run for run in every if run.name in selected]


def _relative_name(name: str, root: Path) -> str:
    """`mini-gpt` for `runs/mini-gpt/`, as the shell completes it."""
    return name.removeprefix("./").removeprefix(f"{root}/").rstrip("/") or name


def _in_state(found: list[ListedRun], state: str | None) -> list[ListedRun]:
    from regard.runs.archive.index import RunState

    if state is None:
        return found
    states = [one.value for one in RunState]
    if state not in states:
        unknown = f"--state {state}: no such state{did_you_mean(state, states)}"
        raise UserError(unknown, topic="runs")
    return [run for run in found if run.state == state]


def _with_size(run: ListedRun) -> ListedRun:
    from regard.runs.archive.index import ListedRun

    size = 0
    for folder, _, files in os.walk(run.folder):
        for file in files:
            try:
                size += os.lstat(Path(folder, file)).st_size
            except FileNotFoundError:
                continue  # a training may prune its checkpoints meanwhile
    return ListedRun(run.folder, {**run.facts, "size": size})


def _print_table(selected: Sequence[ListedRun], *, matching: int, total: int) -> None:
    """One line per run, the columns that fit, and remarks below."""
    from regard.evaluation.formatting import join_words, quantity

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
    from rich.cells import cell_len
    from rich.text import Text

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
    from regard.evaluation.formatting import count, memory_size
    from regard.runs.archive.index import INVALID, RunState

    value = run.facts.get(COLUMNS[heading])
    invalid = run.facts.get("audit") == INVALID
    if value is None:
        return "–", "dim"
    text = str(value).replace("\n", " ")
    if heading == "state":
        return text, {RunState.DAMAGED: "red", RunState.UNFINISHED: "yellow"}.get(run.state, "")
    if heading == "audit":
        return text, "bold red" if invalid else ""
    if heading == "finished":
        return text[:16].replace("T", " "), ""
    if heading == "steps":
        return _progress(run), ""
    if heading == "on dev":
        return _dev_score(run)
    formats = {"parameters": count, "size": memory_size}
    if heading in formats and isinstance(value, int | float):  # the type is not validated here
        text = formats[heading](value)
    return text, ""


def _dev_score(run: ListedRun) -> Cell:
    """`accuracy 0.891`: the main score on dev, marked if it means nothing."""
    from regard.evaluation.formatting import number
    from regard.runs.archive.index import INVALID

    name = str(run.facts["metric"])
    value = run.facts.get(f"dev.{name}")
    if not isinstance(value, int | float):
        return "–", "dim"
    text = f"{name.replace('_', ' ')} {number(value)}"
    if run.facts.get("collapsed"):
        return f"COLLAPSED {text}", "bold red"
    return text, "red" if run.facts.get("audit") == INVALID else ""


def _progress(run: ListedRun) -> str:
    """`500`, or `120 of 500` if unfinished."""
    counts = [run.facts.get(key) for key in ("steps", "steps_planned")]
    return " of ".join(f"{steps:,}" for steps in counts if isinstance(steps, int))


def _delete(
    selected: Sequence[ListedRun],
    every: Sequence[ListedRun],
    *,
    conditions: Sequence[Condition],
    named: frozenset[str],
    yes: bool,
    root: Path,
) -> None:
    """List the runs, ask for confirmation and delete them; all or, if one must stay, none."""
    from regard.evaluation.formatting import quantity
    from regard.runs.archive.deletion import check_deletable, delete_runs

    say = side_console().print
    if not selected:
        say("nothing to delete: no run matches")
        return
    confirmed = named if yes else frozenset[str]()
    check_deletable(selected, every, conditions=conditions, confirmed=confirmed, root=root)
    for run in selected[:MAX_LISTED]:
        say(f"  {run.folder}  {run.state}{_activity(run)}", markup=False, soft_wrap=True)
    if len(selected) > MAX_LISTED:
        say(f"  … and {len(selected) - MAX_LISTED:,} more")
    if not yes and not typer.confirm(f"Delete {quantity(len(selected), 'runs')}?", err=True):
        say("nothing was deleted")
        raise typer.Exit(1)
    delete_runs(selected)
    say(f"deleted {quantity(len(selected), 'runs')}")


def _activity(run: ListedRun) -> str:
    """The step of an unfinished run, and a warning if it may still be training."""
    from regard.evaluation.formatting import duration
    from regard.runs.archive.index import RunState

    events = run.folder / "events.jsonl"
    if run.state != RunState.UNFINISHED or not events.is_file():
        return ""
    ago = max(time.time() - events.stat().st_mtime, 0.0)
    warning = ""
    if ago < RECENT_SECONDS:
        warning = f", written to {duration(ago)} ago: is it still training?"
    return f" at step {_progress(run)}{warning}"
