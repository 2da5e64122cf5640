"""Read a run folder: reports and comparisons show what is in these files, and nothing else.

    recipe.toml     the resolved recipe
    events.jsonl    events of the training, one JSON object a line
    results.json    the final evaluation; absent while the run is not finished

A run may have been killed and resumed. Events after the step it was resumed from are dropped, and
so is a line truncated by the kill.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from regard.core.errors import UserError
from regard.core.printable import printable
from regard.core.seal import check_sealed, find_change
from regard.core.untrusted import parse_json
from regard.runs.archive.record import Events, RunRecord
from regard.runs.results import read_results
from regard.training.events import (
    DivergenceEvent,
    EvaluationEvent,
    FinishEvent,
    ResumeEvent,
    SamplesEvent,
    StartEvent,
    StepEvent,
)


def read_run(folder: Path) -> RunRecord:
    """The run in `folder`, finished or not."""
    recipe, events = folder / "recipe.toml", folder / "events.jsonl"
    if not folder.is_dir() or not (recipe.is_file() or events.is_file()):
        problem = "has neither recipe.toml nor events.jsonl"
        if not folder.is_dir():
            problem = "is no folder" if folder.exists() else "does not exist"
        raise UserError(
            f"not a run: it {problem}",
            topic="run",
            where=str(folder),
            hint="Give the folder that `regard train` wrote, such as runs/mini-gpt.",
        )
    hint = "Put the old file back, or train the run again."
    check_sealed(folder, recipe.name, topic="run", hint=hint)
    results = read_results(folder / "results.json")
    return RunRecord(
        folder=folder,
        name=(results.run if results else "") or printable(folder.resolve().name),
        recipe=printable(recipe.read_bytes().decode(errors="replace")) if recipe.is_file() else "",
        events=_read_events(events),
        results=results,
    )


def _read_events(file: Path) -> Events:
    events = Events(changed=find_change(file.parent, file.name) or "")
    if events.changed or not file.is_file():
        return events
    with file.open("rb") as lines:
        for line in lines:
            try:
                _add(events, parse_json(line))
            except (ValueError, TypeError, AttributeError, KeyError):
                # Broken JSON, or JSON that is no event. A line without its newline is still being
                # written, or was truncated by a kill.
                events.unreadable_lines += line.endswith(b"\n")
    return events


def _add(events: Events, table: dict[str, Any]) -> None:
    kind = table["event"]
    if kind == "start":
        events.start = StartEvent.model_validate(printable(table))
    elif kind == "step":
        _append(events.steps, StepEvent.model_validate(table))
    elif kind == "evaluation":
        _append(events.evaluations, EvaluationEvent.model_validate(table))
    elif kind == "sample":
        _append(events.samples, SamplesEvent.model_validate(printable(table)))
    elif kind == "resume":
        resumed_from = ResumeEvent.model_validate(table).step
        events.resumed_from.append(resumed_from)
        for series in _series(events):
            while series and series[-1].step > resumed_from:
                series.pop()
    elif kind == "divergence":
        events.divergence = DivergenceEvent.model_validate(printable(table))
    elif kind == "finish":
        events.finished_at = FinishEvent.model_validate(table).step


AtStep = TypeVar("AtStep", StepEvent, EvaluationEvent, SamplesEvent)


def _append(series: list[AtStep], event: AtStep) -> None:
    # Steps go back only on a resume; the resume event itself may have been lost.
    while series and series[-1].step >= event.step:
        series.pop()
    series.append(event)


def _series(events: Events) -> Iterator[list[Any]]:
    yield events.steps
    yield events.evaluations
    yield events.samples
