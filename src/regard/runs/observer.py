"""Observer: receives the events and the progress of an experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regard.training.events import OnEvent, ignore_event


@dataclass(frozen=True)
class Observer:
    """Callbacks of an experiment; the command line draws progress bars with them."""

    on_event: OnEvent = ignore_event
    "Gets every event of the run, as written to events.jsonl."
    on_progress: Callable[[str, int, int | None], None] = lambda stage, done, total: None
    "Gets long work outside the training steps: stage, how much is done, of how much (or None)."

    def progress(self, stage: str) -> Callable[[int, int | None], None]:
        def on_progress(done: int, total: int | None = None) -> None:
            self.on_progress(stage, done, total)

        return on_progress


SILENT = Observer()
