"""What happens in a run, a JSON line each, appended as it happens.

A run that was killed may leave half a line at the end: readers pass it over, and a resumed run
drops what came after its checkpoint, so that no step is told twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from regard.core.files import write_text

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener that does not listen."""


def read_events(file: Path) -> Iterator[Event]:
    if not file.is_file():
        return
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the half line of a killed run
            if isinstance(event, dict):
                yield event


class EventLog:
    """Appends events to a file, each flushed at once so that others can watch."""

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
