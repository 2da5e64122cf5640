"""What the last events of a run say: how far it is, how it diverged, how long it trained.

Read from the end of `events.jsonl`, which grows with the training. Needs no torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.training.events import parse_events

EVENTS_FILE = "events.jsonl"
TAIL_BYTES = 4096


def divergence(run: Path) -> str:
    """How its training diverged, if that is how it ended."""
    last = next(_last_events(run), {})
    if last.get("event") != "divergence":
        return ""
    return f"{last.get('text')}; to train it again, delete {run}"


def progress(run: Path) -> str:
    """`step 120`"""
    steps = (event for event in _last_events(run) if event.get("event") == "step")
    return next((f"step {event['step']}" for event in steps), "")


def trained_seconds(run: Path) -> float:
    """Seconds of training so far, those before an interruption included."""
    seconds = (event.get("seconds") for event in _last_events(run))
    return next((float(one) for one in seconds if one is not None), 0.0)


def last_line(log: Path) -> str:
    """The last line of a log, which says why a training failed; empty if there is none."""
    try:
        tail = log.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()
    except OSError:
        return ""
    return tail.rpartition("\n")[2].strip()


def _last_events(run: Path) -> Iterator[dict[str, Any]]:
    """Events of the run, the last first."""
    try:
        with (run / EVENTS_FILE).open("rb") as events:
            events.seek(0, os.SEEK_END)
            events.seek(max(0, events.tell() - TAIL_BYTES))
            lines = events.read().splitlines()
    except OSError:
        return iter(())
    return parse_events(reversed(lines))
