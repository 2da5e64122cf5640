"""`regard compare` and `regard sweep`: run a study and print its verdict."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, UserFiles, print_json, side_console
from regard.core.errors import UserError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from regard.studies.engines.local import Job, OnJob

StudyFile = Annotated[
    Path, typer.Argument(metavar="STUDY", help="Study file (TOML): base, variants, seeds.")
]
Out = Annotated[Path | None, typer.Option(help="Study folder; default: runs/NAME.")]
Seeds = Annotated[str, typer.Option(help="Override the study's seeds: 0,1,2 or 0-4.")]
Jobs = Annotated[
    int, typer.Option(min=0, help="Parallel trainings, one thread each; 0: one per CPU core.")
]
Only = Annotated[list[str] | None, typer.Option(help="Train only this variant; repeatable.")]


def compare(
    study: StudyFile,
    out: Out = None,
    seeds: Seeds = "",
    jobs: Jobs = 0,
    only: Only = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Train a study's variants with every seed and compare them.

    Finished runs are kept: the same command resumes an interrupted study."""
    from regard import api
    from regard.cli.studies.verdict_table import print_outcome
    from regard.reports.study_report import write_comparison_report
    from regard.studies.compare import compare as run_study

    api.load_parts(user_files or ())
    try:
        with _signals_as_interrupt(), _job_display() as on_job:
            home, outcome = run_study(
                study,
                out=out,
                seeds=_parse_seeds(seeds),
                jobs=jobs,
                only=only or (),
                user_files=user_files or (),
                on_job=on_job,
            )
    except KeyboardInterrupt:
        print("\nstopped; every training is saved. Resume with the same command.", file=sys.stderr)
        raise typer.Exit(130) from None
    report = write_comparison_report(home, outcome)
    if as_json:
        print_json(outcome.as_dict() | {"report": str(report)})
    else:
        print_outcome(outcome, report)
    if not any(not run.reason for variant in outcome.variants for run in variant.runs):
        raise UserError(f"no run of {home} is finished: {outcome.missing[0]}", topic="study")


def sweep(
    study: StudyFile,
    out: Out = None,
    seeds: Seeds = "",
    jobs: Jobs = 0,
    only: Only = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Train every combination of a study's grid and compare them.

    Like compare, for a study with [grid] or [random]."""
    from regard import api
    from regard.studies.study import LoadedStudy

    api.load_parts(user_files or ())
    settings = LoadedStudy.load(study).study
    if not settings.grid and settings.random is None:
        raise UserError(
            "there is nothing to sweep: neither [grid] nor [random]",
            topic="study",
            where=str(study),
            hint='Add [grid], for instance with "train.lr" = [1e-3, 3e-3].',
        )
    compare(study, out, seeds, jobs, only, user_files, as_json)


def _parse_seeds(text: str) -> tuple[int, ...]:
    """`0,1,2` or `0-4`, both ends included."""
    seeds: list[int] = []
    try:
        for item in filter(None, text.split(",")):
            first, dash, last = item.partition("-")
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError:
        raise UserError(f"--seeds {text}: write 0,1,2 or 0-4") from None
    return tuple(seeds)


@contextmanager
def _job_display() -> Iterator[OnJob]:
    """A progress bar per running training, a line per finished one."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = side_console()
    bars = Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    tasks: dict[Path, TaskID] = {}

    def on_job(state: str, job: Job, detail: str) -> None:
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
        yield on_job


@contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP stop the study's trainings like Ctrl-C."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # Ignored signals stay ignored: under nohup a study outlives its terminal.
    handled = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
