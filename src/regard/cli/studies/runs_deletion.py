"""`regard runs --delete`: list what would be deleted, ask, and delete it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import typer

from regard.cli.console import side_console
from regard.cli.studies.runs_table import progress_text
from regard.evaluation.formatting import duration, quantity
from regard.runs.archive.deletion import check_deletable, delete_runs
from regard.runs.archive.filters import Condition
from regard.runs.archive.index import ListedRun, RunState

MAX_LISTED = 20
"Runs listed before the confirmation of --delete."
RECENT_SECONDS = 600.0
"A run written to within this time may still be training."


def delete_after_confirmation(
    selected: Sequence[ListedRun],
    every: Sequence[ListedRun],
    *,
    conditions: Sequence[Condition],
    named: frozenset[str],
    yes: bool,
    root: Path,
) -> None:
    """List the runs, ask for confirmation and delete them; all or, if one must stay, none."""
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
    events = run.folder / "events.jsonl"
    if run.state != RunState.UNFINISHED or not events.is_file():
        return ""
    ago = max(time.time() - events.stat().st_mtime, 0.0)
    warning = ""
    if ago < RECENT_SECONDS:
        warning = f", written to {duration(ago)} ago: is it still training?"
    return f" at step {progress_text(run)}{warning}"
