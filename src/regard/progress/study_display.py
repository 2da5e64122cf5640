"""Live display of a study: a bar for each running training, a line for each finished one, and how
far the whole is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from regard.evaluation.formatting import quantity
from regard.progress.bars import progress_bars
from regard.runs.observer import SILENT, JobState, ObservedJob, Observer, StudyProgress

MAX_BARS = 16
"Of trainings that run; a cluster may run hundreds."


@contextmanager
def study_display(console: Console | None) -> Iterator[Observer]:
    """An observer of a study's trainings; silent without a console."""
    if console is None:
        yield SILENT
        return
    bars = progress_bars(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        console=console,
    )
    tasks: dict[Path, TaskID] = {}
    whole = StudyBar(bars, console)

    def on_job(state: JobState, job: ObservedJob, detail: str) -> None:
        if state in ("started", "running"):
            if job.folder not in tasks:
                if len(tasks) >= MAX_BARS:
                    return
                steps = job.recipe.train.max_steps
                tasks[job.folder] = bars.add_task(job.title, total=steps, detail="")
            done = int(detail.removeprefix("step ")) if detail.startswith("step ") else None
            bars.update(tasks[job.folder], completed=done, detail=detail)
            return
        if job.folder in tasks:
            bars.remove_task(tasks.pop(job.folder))
        failed = state == "failed"
        text = f"  {'✗' if failed else '✓'} {job.title}" + (f": {detail}" if detail else "")
        console.print(text, style="red" if failed else "dim", markup=False, soft_wrap=True)

    with bars:
        yield Observer(on_job=on_job, on_study=whole.update)


class StudyBar:
    """How many trainings have ended, on how many slots, and when all will have at this pace."""

    def __init__(self, bars: Progress, console: Console) -> None:
        self._bars, self._console = bars, console
        self._task: TaskID | None = None
        self._first: StudyProgress | None = None
        "Of the trainings that run now: trials, all seeds, or those of a look."
        self._began = 0.0
        self._said = ""

    def update(self, progress: StudyProgress) -> None:
        if self._first is None or progress.done < self._first.done:
            self._first, self._began = progress, time.monotonic()
        ended, left = progress.done - self._first.done, progress.total - progress.done
        detail = capacity(progress)
        if progress.nodes is not None and detail != self._said:  # they come and go
            self._console.print(f"  {detail}", style="dim", markup=False)
            self._said = detail
        if ended and left:
            detail += f" · {expected_end(left * (time.monotonic() - self._began) / ended)}"
        if self._task is None:
            self._task = self._bars.add_task("runs", total=progress.total, detail=detail)
        done = f"{progress.done} of {progress.total} · {detail}"
        self._bars.update(self._task, total=progress.total, completed=progress.done, detail=done)


def capacity(progress: StudyProgress) -> str:
    """`3 nodes, 6 slots`"""
    nodes = "" if progress.nodes is None else f"{quantity(progress.nodes, 'nodes')}, "
    return f"{nodes}{quantity(progress.slots, 'slots')}"


def expected_end(seconds: float) -> str:
    """`ends about 17:45`, with the date where that is another day."""
    now = datetime.now()
    end = now + timedelta(seconds=seconds)
    day = "" if end.date() == now.date() else f"{end:%d %b} "
    return f"ends about {day}{end:%H:%M}"
