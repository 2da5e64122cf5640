"""Events of a run, and their log: one JSON object a line, appended as training goes.

    {"event": "step", "step": 20, "tokens": 64000, "seconds": 4.1, "loss": 5.2, "lr": 0.0005, …}

A killed run may leave a truncated last line, which readers skip; a resumed run drops the events
after its checkpoint, so that no step is logged twice, and damaged lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from regard.core.files import write_text
from regard.core.json_records import JsonRecord
from regard.core.untrusted import parse_json


class Event(JsonRecord):
    """Something that happened in a run; `event` says which kind."""

    event: str


class RemarkEvent(Event):
    event: Literal["remark"] = "remark"
    text: str
    step: int | None = None


class StartEvent(Event):
    event: Literal["start"] = "start"
    time: str | None = None
    steps: int | None = None
    parameters: int | None = None


class ResumeEvent(Event):
    event: Literal["resume"] = "resume"
    step: int
    time: str | None = None
    steps: int | None = None


class StepEvent(Event):
    event: Literal["step"] = "step"
    step: int
    loss: float
    "Mean over the steps since the previous such event, in nats per token."
    tokens: int | None = None
    seconds: float | None = None
    lr: float | None = None
    gradient_norm: float | None = None


class EvaluationEvent(Event):
    event: Literal["evaluation"] = "evaluation"
    step: int
    loss: float
    n: int
    tokens: int | None = None
    seconds: float | None = None
    scores: dict[str, float] = Field(default_factory=dict)
    "By name, as shown during training."
    items: str = "documents"


class SamplesEvent(Event):
    event: Literal["sample"] = "sample"
    step: int
    texts: tuple[str, ...]


class CheckpointEvent(Event):
    event: Literal["checkpoint"] = "checkpoint"
    step: int


class DivergenceEvent(Event):
    """The training stopped here, for its loss is not finite or too large to score."""

    event: Literal["divergence"] = "divergence"
    step: int
    text: str


class FinishEvent(Event):
    event: Literal["finish"] = "finish"
    step: int
    seconds: float | None = None


OnEvent = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """An `OnEvent` that does nothing."""


class EventLog:
    """Appends events to a file, each flushed at once, so that other processes can follow."""

    def __init__(self, file: Path, *, after_step: int) -> None:
        self.damaged_lines = 0
        "Lines of an earlier start that are dropped because they are no events."
        if file.is_file():
            *complete, _cut_by_a_kill = file.read_bytes().split(b"\n")
            events = list(parse_events(complete))
            self.damaged_lines = len(complete) - len(events)
            kept = [event for event in events if _is_kept(event, after_step)]
            write_text(file, "".join(json.dumps(event) + "\n" for event in kept))
        self._file = file.open("a", encoding="utf-8")

    def __call__(self, event: Event) -> None:
        self._file.write(json.dumps(event.model_dump(), ensure_ascii=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def parse_events(lines: Iterable[str | bytes]) -> Iterator[dict[str, Any]]:
    """Every line that is an event: a killed run leaves a truncated one, a bad disk damaged ones."""
    kinds = {kind.model_fields["event"].default: kind for kind in Event.__subclasses__()}
    for line in lines:
        with suppress(ValueError, AttributeError, KeyError, TypeError):
            event = parse_json(line)
            kinds[event.get("event")].model_validate(event)
            yield event


def _is_kept(event: dict[str, Any], after_step: int) -> bool:
    """Whether an event of an earlier start stays when training resumes after a step."""
    step = event.get("step") or 0
    ended = event.get("event") in ("finish", "divergence")
    return bool(after_step) and step <= after_step and not ended
