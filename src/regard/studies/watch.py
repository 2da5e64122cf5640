"""Watch a study that others run: where each training is, and what can be seen of the comparison.

Nothing is trained and nothing is written: the plan and the run folders are read, and judged by the
functions that judge the study at its end. Until every planned run has ended there is no verdict,
but a preview: a value that people stop at when they like it is wrong more often than its 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from statistics import fmean

from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.core.toml import read_toml
from regard.evaluation.formatting import difference, quantity
from regard.runs.archive.read_run import read_run
from regard.runs.archive.record import RunRecord
from regard.runs.locking.lock import seems_written
from regard.studies.compare import Pool, run_planned
from regard.studies.engines.job import Job, JobResult, ended_jobs
from regard.studies.engines.run_events import divergence
from regard.studies.outcome import OUTCOME_FILE, Outcome, VerdictOutcome, read_outcome
from regard.studies.plan import PlannedVariant, stored_plan
from regard.studies.study import LoadedStudy, Study, Variant, changes_by_name
from regard.studies.verdicts.planned_looks import PREVIEW, PlannedLooks

NOT_ENDED = "it has not ended"


class WatchedState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    STOPPED = "stopped"
    FINISHED = "finished"
    DIVERGED = "diverged"


@dataclass(frozen=True)
class WatchedRun:
    """One training of a study, as far as it is."""

    variant: str
    seed: int
    trial: str
    folder: Path
    state: WatchedState
    record: RunRecord | None = None
    "None before its folder exists."

    @property
    def steps(self) -> int | None:
        """That it will have."""
        return self.record.events.start.steps if self.record else None

    @property
    def fraction(self) -> float:
        """Of its steps that are done."""
        if self.has_ended:
            return 1.0
        return (
            min(1.0, self.record.events.last_step / self.steps)
            if self.record and self.steps
            else 0.0
        )

    @property
    def has_ended(self) -> bool:
        return self.state in (WatchedState.FINISHED, WatchedState.DIVERGED)

    @property
    def seconds(self) -> float | None:
        """From its start to its results; None if it is not finished."""
        if self.record is None or self.record.results is None:
            return None
        began, ended = _time(self.record.events.start.time), _time(self.record.results.finished)
        return (ended - began).total_seconds() if began and ended else None


@dataclass(frozen=True)
class WatchedStudy:
    """A study as its folder is now."""

    home: Path
    outcome: Outcome
    "As judged, or so far: then every verdict of it is a preview."
    runs: tuple[WatchedRun, ...] = ()
    "Trials of tuning too, in the order of training; empty for results that regard did not make."
    planned_seeds: int = 0
    "Of the whole study, or of the look that is taken now."

    @property
    def ended(self) -> int:
        return sum(run.has_ended for run in self.runs)

    @property
    def running(self) -> list[WatchedRun]:
        return [run for run in self.runs if run.state is WatchedState.RUNNING]

    @property
    def is_decided(self) -> bool:
        """Whether the verdict is that of the planned number of seeds."""
        return self.ended == len(self.runs)

    @property
    def complete_seeds(self) -> int:
        """With which every variant has ended."""
        trainings = [run for run in self.runs if not run.trial or self._is_chosen(run)]
        seeds = {run.seed for run in trainings}
        return sum(all(run.has_ended for run in trainings if run.seed == seed) for seed in seeds)

    @property
    def undecided(self) -> str:
        """`not decided: 3 of 5 seeds, planned`; empty once it is decided."""
        if self.is_decided:
            return ""
        return f"not decided: {self.complete_seeds} of {self.planned_seeds} seeds, planned"

    def seconds_left(self, *, now: datetime) -> float | None:
        """Until every run has ended, if those to come take as long as those of their variant; None
        where no run of some variant has finished, or nothing runs."""
        if self.is_decided or not self.running:
            return None
        left = 0.0
        for run in self.runs:
            if run.has_ended:
                continue
            took = [one.seconds for one in self.runs if one.variant == run.variant]
            known = [one for one in took if one is not None]
            if not known:
                return None
            began = _time(run.record.events.start.time) if run.record else None
            spent = (now - began).total_seconds() if began and run in self.running else 0.0
            left += max(fmean(known) - spent, 0.0)
        return left / len(self.running)

    def _is_chosen(self, run: WatchedRun) -> bool:
        folders = {one.folder for variant in self.outcome.variants for one in variant.runs}
        return str(run.folder.relative_to(self.home).as_posix()) in folders


@dataclass
class Watching:
    """An engine that trains nothing: of a job that has not ended it says so."""

    jobs: dict[Path, Job] = field(default_factory=dict)

    def run_jobs(self, jobs: Sequence[Job]) -> list[JobResult]:
        self.jobs |= {job.folder: job for job in jobs}
        ended = ended_jobs(jobs)
        return [ended.get(job.folder, JobResult(job, NOT_ENDED)) for job in jobs]


def watch(home: Path) -> WatchedStudy:
    """The study in `home`: its outcome once that stands, what can be seen of it before."""
    stored = _stored_outcome(home)
    if not (home / "plan.json").is_file():
        if stored is None:
            raise UserError(
                "is not planned yet: it has no plan.json",
                topic="study",
                where=str(home),
                hint="Data is prepared and budgets are divided first; look again soon.",
            )
        return WatchedStudy(home, stored, planned_seeds=len(stored.seeds))
    try:
        loaded, planned = _stored_study(home)
    except UserError:  # it names parts of somebody's own files, or a former version's
        if stored is None:
            raise
        return WatchedStudy(home, stored, planned_seeds=len(stored.seeds))
    engine = Watching()
    outcome, seeds = _so_far(loaded, planned, Pool(home, engine, ()))
    runs = tuple(_watched(job) for job in engine.jobs.values())
    watched = WatchedStudy(home, outcome, runs, seeds)
    if watched.is_decided:
        # What was written at the end has the looks, the probes and the efficiency.
        is_current = stored is not None and set(stored.seeds) == set(outcome.seeds)
        return replace(watched, outcome=stored) if stored and is_current else watched
    outcome.verdicts = [_as_preview(one, watched) for one in outcome.verdicts]
    return watched


def _stored_outcome(home: Path) -> Outcome | None:
    return read_outcome(home) if (home / OUTCOME_FILE).is_file() else None


def _stored_study(home: Path) -> tuple[LoadedStudy, list[PlannedVariant]]:
    """The study and its plan, as its own folder has them: its files may be elsewhere."""
    file = home / "study.toml"
    read = read_toml(file, topic="study")
    study = read_settings(Study, read.table, locate=read.locate)
    changes = changes_by_name(study)
    planned = stored_plan(home, list(changes))
    reference = study.reference or next(iter(changes))
    variants = tuple(
        Variant(
            one.name,
            one.recipe,
            {key: value for key, value in changes[one.name].items() if key != "against"},
            str(changes[one.name].get("against", reference)),
        )
        for one in planned
    )
    return LoadedStudy(study, file, variants), planned


def _so_far(
    loaded: LoadedStudy, planned: Sequence[PlannedVariant], pool: Pool
) -> tuple[Outcome, int]:
    """The outcome of what has ended, and the number of seeds at which it is judged."""
    looks = PlannedLooks.of(loaded)
    if looks is None:
        outcome = run_planned(loaded, planned, pool, None, command="")
        return outcome, len(loaded.study.all_seeds)
    while True:
        at_look = looks.at_this_look(loaded)
        outcome = run_planned(at_look, planned, pool, looks, command="")
        if not looks.take(outcome):
            return outcome, len(at_look.study.all_seeds)


def _watched(job: Job) -> WatchedRun:
    try:
        record = read_run(job.folder)
    except UserError:  # it has not begun, or is damaged: the outcome says that
        record = None
    if job.is_finished:
        state = WatchedState.FINISHED
    elif divergence(job.folder):
        state = WatchedState.DIVERGED
    elif seems_written(job.folder):
        state = WatchedState.RUNNING
    else:
        state = WatchedState.STOPPED if record else WatchedState.WAITING
    return WatchedRun(job.variant, job.seed, job.trial, job.folder, state, record)


def _as_preview(verdict: VerdictOutcome, watched: WatchedStudy) -> VerdictOutcome:
    """What was judged of the runs so far, without a winner."""
    if verdict.value is None or verdict.look:  # at a planned look it is one, or is marked
        return verdict
    value = difference(verdict.value, verdict.low, verdict.high, decimals=2)
    note = (
        f"{verdict.variant} − {verdict.reference}: {value} so far, over "
        f"{verdict.seeds} of {quantity(watched.planned_seeds, 'seeds')}"
    )
    return replace(verdict, sentence=PREVIEW, notes=(note,), better="", is_preview=True)


def _time(iso: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(iso) if iso else None
    except ValueError:
        return None
