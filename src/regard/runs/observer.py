"""How an experiment tells of itself while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regard.training.events import OnEvent, ignore_event


@dataclass(frozen=True)
class Observer:
    """Who listens: the command line draws bars, a notebook may not care."""

    on_event: OnEvent = ignore_event
    "Every event of the run, as it is written to events.jsonl."
    on_progress: Callable[[str, int, int | None], None] = lambda stage, done, total: None
    "Long work outside the training steps: what it is, how much is done, of how much."

    def progress(self, stage: str) -> Callable[[int, int | None], None]:
        def on_progress(done: int, total: int | None = None) -> None:
            self.on_progress(stage, done, total)

        return on_progress


SILENT = Observer()
