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
"Heading and key of each column."
NUMBERS = {"parameters", "steps", "seed", "on dev", "size"}
FIRST_LEFT_OUT = ("family", "seed", "finished", "parameters", "steps", "attention")
"Columns that go, one after the other, where the terminal is narrow."
GAP = 2
"Spaces between columns."
Cell: TypeAlias = tuple[str, str]
"Words and their style."
MANY = 200
"Folders to be read from which on a bar shows how far it is."
SHOWN_AT_MOST = 20
"Runs listed before the question whether to delete them."
RECENT = 600.0
"Seconds within which a run that was written to may still be training."


def runs(
    names: Annotated[
        list[str] | None, typer.Argument(help="Runs, or folders of them; * and ? match anything.")
    ] = None,
    root: Annotated[Path, typer.Option("--in", help="The folder that holds the runs.")] = Path(
        "runs"
    ),
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only runs with, e.g., train.seed=0, dev.perplexity<120; repeatable."),
    ] = None,
    state: Annotated[str | None, typer.Option(help="finished, unfinished or damaged.")] = None,
    sort: Annotated[str, typer.Option(help="Key to sort by; -KEY from the largest.")] = "run",
    limit: Annotated[int | None, typer.Option(min=1, help="Show so many at most.")] = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Add the size on disk; this looks at every file.")
    ] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the runs that would be listed.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """List runs: filter, sort, and delete them."""
    from regard.runs.archive.filters import Condition, choose, sort_runs

    conditions = [Condition.parse(text) for text in where or ()]
    if delete and not (names or conditions or state):
        raise UserError(
            "--delete without a choice would delete every run",
            topic="runs",
            hint="Name runs, or give --where or --state; '*' names them all.",
        )
    everything = _listed(root)
    chosen = _in_state(_named(everything, names or (), root=root), state)
    if sizes:
        chosen = [_with_size(run) for run in chosen]
    chosen = sort_runs(choose(chosen, conditions), sort)
    shown = chosen[:limit]
    if delete:
        known = [one for one in conditions if one.key != "size"]
        said = frozenset(_below(name, root) for name in names or ())
        _delete(shown, everything, conditions=known, said=said, yes=yes, root=root)
        if as_json:
            print_json({"deleted": [run.name for run in shown]})
    elif as_json:
        print_json([{"folder": str(run.folder), **run.facts} for run in shown])
    else:
        _print_table(shown, of=len(chosen), everything=len(everything))


def _listed(root: Path) -> list[ListedRun]:
    """Every run; with a bar where many must be read."""
    from regard.runs.archive.index import list_runs

    with ExitStack() as bars:
        show: OnProgress | None = None

        def on_progress(done: int, total: int) -> None:
            nonlocal show
            if show is None and total >= MANY:
                show = bars.enter_context(progress_bar("reading runs"))
            if show is not None:
                show(done, total)

        found = list_runs(root, on_progress=on_progress)
    if not found and (root / "recipe.toml").is_file():
        raise UserError(
            "is a run itself",
            topic="runs",
            where=str(root),
            hint=f"Give the folder that holds it: --in {root.resolve().parent}",
        )
    return found


def _named(found: list[ListedRun], names: Sequence[str], *, root: Path) -> list[ListedRun]:
    """The runs that a name, a pattern or a folder above them says; all where none is said."""
    if not names:
        return found
    chosen: dict[str, ListedRun] = {}
    for given in names:
        pattern = _below(given, root)
        matched = [
            run
            for run in found
            if run.name == pattern
            or run.name.startswith(f"{pattern}/")
            or fnmatchcase(run.name, pattern)
        ]
        if not matched:
            close = did_you_mean(pattern, [run.name for run in found])
            hint = close if "did you mean" in close else ""
            raise UserError(f"no run {given} below {root}{hint}", topic="runs")
        chosen |= {run.name: run for run in matched}
    return [run for run in found if run.name in chosen]


def _below(given: str, root: Path) -> str:
    """`runs/mini-gpt/`, as the shell completes it, means mini-gpt."""
    return given.removeprefix("./").removeprefix(f"{root}/").rstrip("/") or given


def _in_state(found: list[ListedRun], state: str | None) -> list[ListedRun]:
    from regard.runs.archive.index import RunState

    if state is None:
        return found
    known = [one.value for one in RunState]
    if state not in known:
        raise UserError(f"--state {state}: no such state{did_you_mean(state, known)}", topic="runs")
    return [run for run in found if run.state == state]


def _with_size(run: ListedRun) -> ListedRun:
    from regard.runs.archive.index import ListedRun

    size = 0
    for folder, _, files in os.walk(run.folder):
        for file in files:
            try:
                size += os.lstat(Path(folder, file)).st_size
            except FileNotFoundError:
                continue  # a training prunes its checkpoints while we look
    return ListedRun(run.folder, {**run.facts, "size": size})


def _print_table(shown: Sequence[ListedRun], *, of: int, everything: int) -> None:
    """One line a run, the columns that fit, and below what a reader has to know."""
    from regard.evaluation.formatting import join_words, quantity

    say = console().print
    if not shown:
        say("no runs" if not everything else f"none of {quantity(everything, 'runs')} matches")
        return
    left_out = _print_rows(shown)
    for run in shown:
        if why := run.facts.get("why"):
            say(f"damaged  {why}", style="red", markup=False, soft_wrap=True)
    if len(shown) < everything:
        further = f", {of:,} match" if of > len(shown) else ""
        say(f"{len(shown):,} of {quantity(everything, 'runs')}{further}", style="dim")
    if left_out:
        words = f"no room here for {join_words(left_out)}; --json has all"
        say(words, style="dim", soft_wrap=True)
    if len({_items(run) for run in shown if "dev.perplexity" in run.facts}) > 1:
        say(
            "These runs differ in tokenizer or dev documents: their perplexities cannot be "
            "compared with each other.",
            style="yellow",
            soft_wrap=True,
        )


def _items(run: ListedRun) -> tuple[Any, Any]:
    """What a dev perplexity stands on."""
    return run.facts.get("dev.fingerprint"), run.facts.get("tokenizer.fingerprint")


def _print_rows(shown: Sequence[ListedRun]) -> list[str]:
    """The table; the columns that found no room. Rich's own is too slow for thousands of rows."""
    from rich.cells import cell_len
    from rich.text import Text

    headings = [h for h, key in COLUMNS.items() if key != "size" or key in shown[0].facts]
    columns = {h: [(h, "dim"), *(_cell(run, h) for run in shown)] for h in headings}
    widths = {h: max(cell_len(words) for words, _ in columns[h]) for h in headings}
    left_out = []
    for heading in FIRST_LEFT_OUT:
        if sum(widths[h] + GAP for h in headings) - GAP > console().width:
            headings.remove(heading)
            left_out.append(heading)
    with console():  # written at once, not line by line
        for row in zip(*(columns[h] for h in headings), strict=True):
            line = Text()
            for heading, (words, style) in zip(headings, row, strict=True):
                space = " " * (widths[heading] - cell_len(words))
                line.append(space + words if heading in NUMBERS else words + space, style)
                line.append(" " * GAP)
            line.rstrip()
            console().print(line, soft_wrap=True)
    return left_out


def _cell(run: ListedRun, heading: str) -> Cell:
    from regard.evaluation.formatting import count, memory_size
    from regard.runs.archive.index import INVALID, RunState

    value = run.facts.get(COLUMNS[heading])
    invalid = run.facts.get("audit") == INVALID
    if value is None:
        return "–", "dim"
    words = str(value).replace("\n", " ")
    if heading == "state":
        return words, {RunState.DAMAGED: "red", RunState.UNFINISHED: "yellow"}.get(run.state, "")
    if heading == "audit":
        return words, "bold red" if invalid else ""
    if heading == "finished":
        return words[:16].replace("T", " "), ""
    if heading == "steps":
        return _progress(run), ""
    if heading == "on dev":
        return _judged(run)
    shapes = {"parameters": count, "size": memory_size}
    if heading in shapes and isinstance(value, int | float):  # a recipe may say what it likes
        words = shapes[heading](value)
    return words, ""


def _judged(run: ListedRun) -> Cell:
    """`accuracy 0.891`: what the run is judged by, and whether that means anything."""
    from regard.evaluation.formatting import number
    from regard.runs.archive.index import INVALID

    name = str(run.facts["metric"])
    value = run.facts.get(f"dev.{name}")
    if not isinstance(value, int | float):
        return "–", "dim"
    words = f"{name.replace('_', ' ')} {number(value)}"
    if run.facts.get("collapsed"):
        return f"COLLAPSED {words}", "bold red"
    return words, "red" if run.facts.get("audit") == INVALID else ""


def _progress(run: ListedRun) -> str:
    """`500`, or `120 of 500` where it has not ended."""
    told = [run.facts.get(key) for key in ("steps", "steps_planned")]
    return " of ".join(f"{steps:,}" for steps in told if isinstance(steps, int))


def _delete(
    doomed: Sequence[ListedRun],
    everything: Sequence[ListedRun],
    *,
    conditions: Sequence[Condition],
    said: frozenset[str],
    yes: bool,
    root: Path,
) -> None:
    """Show what would go, ask, and delete it; nothing goes where one of them must not."""
    from regard.evaluation.formatting import quantity
    from regard.runs.archive.deletion import check_deletable, delete_runs

    tell = side_console().print
    if not doomed:
        tell("nothing to delete: no run matches")
        return
    needless = said if yes else frozenset[str]()
    check_deletable(doomed, everything, conditions=conditions, needless=needless, root=root)
    for run in doomed[:SHOWN_AT_MOST]:
        tell(f"  {run.folder}  {run.state}{_activity(run)}", markup=False, soft_wrap=True)
    if len(doomed) > SHOWN_AT_MOST:
        tell(f"  … and {len(doomed) - SHOWN_AT_MOST:,} more")
    if not yes and not typer.confirm(f"Delete {quantity(len(doomed), 'runs')}?", err=True):
        tell("nothing was deleted")
        raise typer.Exit(1)
    delete_runs(doomed)
    tell(f"deleted {quantity(len(doomed), 'runs')}")


def _activity(run: ListedRun) -> str:
    """How far an unfinished run got, and a warning where a training may be at work in it."""
    from regard.evaluation.formatting import duration
    from regard.runs.archive.index import RunState

    events = run.folder / "events.jsonl"
    if run.state != RunState.UNFINISHED or not events.is_file():
        return ""
    ago = max(time.time() - events.stat().st_mtime, 0.0)
    still = f", written to {duration(ago)} ago: does it still train?" if ago < RECENT else ""
    return f" at step {_progress(run)}{still}"
