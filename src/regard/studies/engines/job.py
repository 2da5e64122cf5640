"""Jobs: the trainings of a study, and what is left of them in their run folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from regard.core.files import write_text
from regard.runs.observer import OnJob, ignore_job
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.studies.engines.run_events import divergence


@dataclass(frozen=True)
class Job:
    """One training of a study."""

    variant: str
    seed: int
    recipe: Recipe
    folder: Path
    trial: str = ""
    "The tuned values, such as lr=0.001; empty without tuning."

    @property
    def title(self) -> str:
        return f"{self.variant} · seed {self.seed}" + (f" · {self.trial}" if self.trial else "")

    @property
    def file_name(self) -> str:
        """Of its recipe and log, without suffix."""
        return "-".join((self.variant, f"seed{self.seed}", *([self.trial] if self.trial else [])))

    def write_recipe(self, folder: Path) -> Path:
        """The file of its recipe, as it is trained, in `folder`."""
        file = folder / f"{self.file_name}.toml"
        write_text(file, self.recipe.to_toml())
        return file

    @property
    def is_finished(self) -> bool:
        return Run(self.folder).is_finished


@dataclass(frozen=True)
class JobResult:
    """The result of a job: finished, or the reason why not."""

    job: Job
    reason: str = ""
    seconds: float = 0.0
    "Seconds of training, for this study's call alone; 0 if it was finished before."


class Engine(Protocol):
    """Whatever trains jobs."""

    def run_jobs(self, jobs: Sequence[Job]) -> list[JobResult]: ...


def ended_jobs(jobs: Sequence[Job], on_job: OnJob = ignore_job) -> dict[Path, JobResult]:
    """Results, by folder, of the jobs that are finished, and of those that diverged: they would
    again."""
    results = {job.folder: JobResult(job) for job in jobs if job.is_finished}
    for result in results.values():
        on_job("finished", result.job, "already finished")
    for job in jobs:
        if job.folder not in results and (reason := divergence(job.folder)):
            results[job.folder] = JobResult(job, reason)
            on_job("failed", job, reason)
    return results
