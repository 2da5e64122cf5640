"""Jobs: the trainings of a study, and what is left of them in their run folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from regard.core.files import write_text
from regard.runs.observer import OnJob, ignore_job
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.training.events import parse_events

TAIL_BYTES = 4096


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

    def divergence(self) -> str:
        """How its training diverged, if that is how it ended."""
        last = next(self._last_events(), {})
        if last.get("event") != "divergence":
            return ""
        return f"{last.get('text')}; to train it again, delete {self.folder}"

    def progress(self) -> str:
        """`step 120`, from the end of the run's events."""
        steps = (event for event in self._last_events() if event.get("event") == "step")
        return next((f"step {event['step']}" for event in steps), "")

    def trained_seconds(self) -> float:
        """Seconds of training so far, those before an interruption included."""
        seconds = (event.get("seconds") for event in self._last_events())
        return next((float(one) for one in seconds if one is not None), 0.0)

    def _last_events(self) -> Iterator[dict[str, Any]]:
        """Events of the run, the last first."""
        try:
            with Run(self.folder).events_file.open("rb") as events:
                events.seek(0, os.SEEK_END)
                events.seek(max(0, events.tell() - TAIL_BYTES))
                lines = events.read().splitlines()
        except OSError:
            return iter(())
        return parse_events(reversed(lines))


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
        if job.folder not in results and (reason := job.divergence()):
            results[job.folder] = JobResult(job, reason)
            on_job("failed", job, reason)
    return results


def last_line(log: Path) -> str:
    """The last line of a log, which says why a training failed; empty if there is none."""
    try:
        tail = log.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()
    except OSError:
        return ""
    return tail.rpartition("\n")[2].strip()
