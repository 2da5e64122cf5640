"""`regard compare` and `regard sweep`: run a study, and say what it found."""

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

from regard.cli.console import AsJson, OwnFiles, print_json, side_console
from regard.core.errors import UserError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from regard.studies.engines.local import Job, OnJob

StudyFile = Annotated[Path, typer.Argument(help="A study (TOML): base, variants, seeds.")]
Out = Annotated[Path | None, typer.Option(help="The study's folder; runs/NAME by default.")]
Seeds = Annotated[str, typer.Option(help="Seeds instead of the study's: 0,1,2 or 0-4.")]
Jobs = Annotated[
    int, typer.Option(min=0, help="Trainings at once, one thread each; 0: one for each core.")
]
Only = Annotated[list[str] | None, typer.Option(help="Train this variant only; repeatable.")]


def compare(
    study: StudyFile,
    out: Out = None,
    seeds: Seeds = "",
    jobs: Jobs = 0,
    only: Only = None,
    own_files: OwnFiles = None,
    as_json: AsJson = False,
) -> None:
    """Train every variant of a study with every seed, and say which is better, if any.

    What is finished is not trained again: stopped, the same command goes on."""
    from regard import api
    from regard.cli.studies.verdict_table import print_outcome
    from regard.reports.study_report import write_comparison_report
    from regard.studies.compare import compare as run_study

    api.load_parts(own_files or ())
    try:
        with _stopped_by_signals(), _watched() as on_job:
            home, outcome = run_study(
                study,
                out=out,
                seeds=_numbers(seeds),
                jobs=jobs,
                only=only or (),
                own_files=own_files or (),
                on_job=on_job,
            )
    except KeyboardInterrupt:
        print("\nstopped, and every training saved. Go on with the same command.", file=sys.stderr)
        raise typer.Exit(130) from None
    report = write_comparison_report(home, outcome)
    if as_json:
        print_json(outcome.as_dict() | {"report": str(report)})
    else:
        print_outcome(outcome, report)
    if not any(not run.reason for variant in outcome.variants for run in variant.runs):
        raise UserError(f"no training of {home} is finished: {outcome.missing[0]}", topic="study")


def sweep(
    study: StudyFile,
    out: Out = None,
    seeds: Seeds = "",
    jobs: Jobs = 0,
    only: Only = None,
    own_files: OwnFiles = None,
    as_json: AsJson = False,
) -> None:
    """Train every combination of a study's grid or random values; the same as compare."""
    from regard import api
    from regard.studies.study import LoadedStudy

    api.load_parts(own_files or ())
    asked = LoadedStudy.load(study).study
    if not asked.grid and asked.random is None:
        raise UserError(
            "there is nothing to sweep: it has neither [grid] nor [random]",
            topic="study",
            where=str(study),
            hint='Add [grid] with "train.lr" = [1e-3, 3e-3] and the like.',
        )
    compare(study, out, seeds, jobs, only, own_files, as_json)


def _numbers(text: str) -> tuple[int, ...]:
    """`0,1,2` or `0-4`."""
    numbers: list[int] = []
    try:
        for piece in filter(None, text.split(",")):
            first, dash, last = piece.partition("-")
            numbers += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError:
        raise UserError(f"--seeds {text}: write 0,1,2 or 0-4") from None
    return tuple(numbers)


@contextmanager
def _watched() -> Iterator[OnJob]:
    """A bar for the study and a line for each training that goes on."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = side_console()
    bars = Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[word]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    tasks: dict[Path, TaskID] = {}

    def on_job(what: str, job: Job, word: str) -> None:
        if what in ("began", "goes"):
            if job.folder not in tasks:
                steps = job.recipe.train.max_steps
                tasks[job.folder] = bars.add_task(job.title, total=steps, word="")
            done = int(word.removeprefix("step ")) if word.startswith("step ") else None
            bars.update(tasks[job.folder], completed=done, word=word)
            return
        if job.folder in tasks:
            bars.remove_task(tasks.pop(job.folder))
        failed = what == "failed"
        text = f"  {'✗' if failed else '✓'} {job.title}" + (f": {word}" if word else "")
        console.print(text, style="red" if failed else "dim", markup=False, soft_wrap=True)

    with bars:
        yield on_job


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """A study that is ended or whose terminal closes stops its trainings, as with Ctrl-C."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may listen to signals
        return
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # What is ignored stays so: under nohup a study outlives its terminal.
    heard = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
