"""A run folder as it is read: its recipe, its events and its results."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from regard.evaluation.health.divergence import loss_rise
from regard.runs.results import ResultsRecord
from regard.training.events import (
    DivergenceEvent,
    EvaluationEvent,
    SamplesEvent,
    StartEvent,
    StepEvent,
)


@dataclass
class Events:
    """The events of events.jsonl, without those that a resume undid."""

    start: StartEvent = field(default_factory=StartEvent)
    steps: list[StepEvent] = field(default_factory=list)
    evaluations: list[EvaluationEvent] = field(default_factory=list)
    samples: list[SamplesEvent] = field(default_factory=list)
    resumed_from: list[int] = field(default_factory=list)
    finished_at: int | None = None
    divergence: DivergenceEvent | None = None
    "Where the training stopped because it diverged."
    unreadable_lines: int = 0
    changed: str = ""
    "What became of the file after the run was sealed, in words: then nothing of it is read."

    @property
    def diverged(self) -> str:
        """How the training diverged, in words; empty if it did not."""
        if self.divergence is not None:
            return self.divergence.text
        return loss_rise([step.loss for step in self.steps])

    @property
    def last_step(self) -> int:
        series = (self.steps, self.evaluations, self.samples)
        return max((events[-1].step for events in series if events), default=0)


@dataclass(frozen=True)
class RunRecord:
    folder: Path
    name: str
    recipe: str
    events: Events
    results: ResultsRecord | None
    "None while the run is not finished."
