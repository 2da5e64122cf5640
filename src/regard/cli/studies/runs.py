"""`regard runs`: list, filter, sort and delete the runs below a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import complete_run
from regard.cli.console import AsJson, print_json, progress_bar
from regard.core.errors import UserError, did_you_mean
from regard.core.progress import OnProgress

if TYPE_CHECKING:
    from regard.runs.archive.index import ListedRun

MIN_RUNS_FOR_BAR = 200
"Number of folders from which on reading shows a progress bar."


def runs(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            autocompletion=complete_run,
            help="Runs or folders of runs; * and ? are wildcards.",
        ),
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
    from regard.cli.studies.runs_deletion import delete_after_confirmation
    from regard.cli.studies.runs_table import print_runs
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
        delete_after_confirmation(
            selected, every, conditions=checked, named=named, yes=yes, root=root
        )
        if as_json:
            print_json({"deleted": [run.name for run in selected]})
    elif as_json:
        print_json([{"folder": str(run.folder), **run.facts} for run in selected])
    else:
        print_runs(selected, matching=len(matching), total=len(every))


def _list_runs(root: Path) -> list[ListedRun]:
    """Every run below `root`, with a progress bar if there are many."""
    from regard.runs.archive.index import list_runs

    with ExitStack() as bars:
        bar: OnProgress | None = None

        def on_progress(done: int, total: int | None) -> None:
            nonlocal bar
            if bar is None and (total or 0) >= MIN_RUNS_FOR_BAR:
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
