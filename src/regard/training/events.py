"""Event log of a run: one JSON object a line, appended as training goes.

A killed run may leave a truncated last line, which readers skip; a resumed run drops the events
after its checkpoint, so that no step is logged twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from regard.core.files import write_text

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """An `OnEvent` that does nothing."""


def read_events(file: Path) -> Iterator[Event]:
    if not file.is_file():
        return
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # a killed run's truncated line
            if isinstance(event, dict):
                yield event


class EventLog:
    """Appends events to a file, each flushed at once, so that other processes can follow."""

    def __init__(self, file: Path, *, after_step: int) -> None:
        kept = [
            event
            for event in read_events(file)
            if after_step and event.get("step", 0) <= after_step and event["event"] != "finish"
        ]
        if file.is_file():
            write_text(file, "".join(json.dumps(event) + "\n" for event in kept))
        self._file = file.open("a", encoding="utf-8")

    def __call__(self, event: Event) -> None:
        self._file.write(json.dumps(event, ensure_ascii=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
