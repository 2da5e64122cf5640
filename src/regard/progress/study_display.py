"""Live display of a study: a bar for each running training, a line for each finished one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn

from regard.progress.bars import progress_bars
from regard.runs.observer import SILENT, JobState, ObservedJob, Observer


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

    def on_job(state: JobState, job: ObservedJob, detail: str) -> None:
        if state in ("started", "running"):
            if job.folder not in tasks:
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
        yield Observer(on_job=on_job)
