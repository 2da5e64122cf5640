"""Commands for another scheduler: what is left to train of a study, one command per training.

A `Schedule` stands where an engine would train: it is asked for the same jobs, returns those that
have ended, and raises the others. So a study's jobs are the same whoever trains them, and `regard
compare` finds them finished.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.runs.locking.lock import is_locked
from regard.studies.engines.job import Job, JobResult, ended_jobs


class UnfinishedJobsError(Exception):
    """Jobs that have to be trained before the study can go on."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        super().__init__(f"{len(jobs)} trainings are left")
        self.jobs = jobs


class Schedule:
    """Trains nothing."""

    def run_jobs(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Results of jobs that have ended; an error with those that have not."""
        results = ended_jobs(jobs)
        if left := [job for job in jobs if job.folder not in results]:
            raise UnfinishedJobsError(left)
        return [results[job.folder] for job in jobs]


@dataclass(frozen=True)
class ScheduledTraining:
    """A training as a command; its run folder is locked while it runs."""

    variant: str
    seed: int
    trial: str
    folder: str
    command: tuple[str, ...]
    is_running: bool

    @property
    def line(self) -> str:
        return shlex.join(self.command)


@dataclass(frozen=True)
class StudySchedule:
    """What can be trained now, in any order and in parallel."""

    trainings: tuple[ScheduledTraining, ...]
    then: str
    "The command to run once all of them have ended."

    def as_dict(self) -> dict[str, Any]:
        return {"trainings": [vars(one) for one in self.trainings], "then": self.then}


def scheduled(job: Job, *, recipes: Path, user_files: Sequence[Path]) -> ScheduledTraining:
    """The command of a job, whose recipe is written to `recipes`."""
    recipe = job.write_recipe(recipes)
    words = ["regard", "train", str(recipe), "--out", str(job.folder), "--resume"]
    words += [word for file in user_files for word in ("--with", str(file))]
    return ScheduledTraining(
        job.variant, job.seed, job.trial, str(job.folder), tuple(words), is_locked(job.folder)
    )
