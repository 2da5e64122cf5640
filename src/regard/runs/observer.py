"""Observer: receives the events and the progress of an experiment or a study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from regard.runs.recipe import Recipe
from regard.training.events import OnEvent, ignore_event

JobState = Literal["started", "running", "finished", "failed"]


class ObservedJob(Protocol):
    """One training of a study."""

    @property
    def title(self) -> str: ...

    @property
    def recipe(self) -> Recipe: ...

    @property
    def folder(self) -> Path: ...


OnJob = Callable[[JobState, ObservedJob, str], None]
"(state, job, detail: `step 120`, or why it failed)"


def ignore_job(state: JobState, job: ObservedJob, detail: str) -> None:
    """Does nothing."""


@dataclass(frozen=True)
class StudyProgress:
    """How far the trainings are that a study runs now."""

    done: int
    "Trainings that have ended, those before this call included."
    total: int
    slots: int
    "Trainings that may run in parallel now."
    nodes: int | None = None
    "Of a cluster; None on one machine."


OnStudy = Callable[[StudyProgress], None]


def ignore_study(progress: StudyProgress) -> None:
    """Does nothing."""


@dataclass(frozen=True)
class Observer:
    """Callbacks of an experiment or a study; progress bars are drawn with them."""

    on_event: OnEvent = ignore_event
    "Gets every event of the run, as written to events.jsonl."
    on_progress: Callable[[str, int, int | None], None] = lambda stage, done, total: None
    "Gets long work outside the training steps: stage, how much is done, of how much (or None)."
    on_job: OnJob = ignore_job
    "Gets the trainings of a study, which run in processes of their own."
    on_study: OnStudy = ignore_study
    "Gets how far a study is, whenever a training ends or a node comes or goes."

    def progress(self, stage: str) -> Callable[[int, int | None], None]:
        def on_progress(done: int, total: int | None = None) -> None:
            self.on_progress(stage, done, total)

        return on_progress


SILENT = Observer()
