"""A run folder, read back: everything a report or a comparison shows comes from these files alone.

    recipe.toml     the resolved recipe
    events.jsonl    what happened, one JSON object a line
    figures.json    what was measured at the end; absent while the run is not finished

A run may have been killed and resumed. What the events say past the step it was resumed from was
undone, so it is left out here; a line cut short by the kill is left out too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from regard.core.errors import UserError
from regard.runs.archive.record import (
    EvaluationEvent,
    Events,
    ResultsRecord,
    RunRecord,
    SamplesEvent,
    StartEvent,
    StepEvent,
)

SCHEMA = 1


def read_run(folder: Path) -> RunRecord:
    """The run in `folder`, finished or not."""
    recipe, events = folder / "recipe.toml", folder / "events.jsonl"
    if not folder.is_dir() or not (recipe.is_file() or events.is_file()):
        there = "holds neither recipe.toml nor events.jsonl" if folder.is_dir() else "is no folder"
        raise UserError(
            f"not a run: it {there}",
            topic="run",
            where=str(folder),
            hint="Give the folder that `regard train` wrote, such as runs/mini-gpt.",
        )
    figures = _read_figures(folder / "figures.json")
    return RunRecord(
        folder=folder,
        name=(figures.run if figures else "") or printable(folder.resolve().name),
        recipe=printable(recipe.read_bytes().decode(errors="replace")) if recipe.is_file() else "",
        events=_read_events(events),
        figures=figures,
    )


AnyJson = TypeVar("AnyJson")


def printable(value: AnyJson) -> AnyJson:
    """JSON with every text fit to be shown: `[U+0000]` for what would hide, reorder or break it.

    A model may write anything: control characters, half surrogates that UTF-8 cannot hold, and
    overrides of the writing direction that would make a page read as what it is not.
    """
    shown: Any = value
    if isinstance(value, str):
        # Through UTF-16, two halves that belong together become the one character they mean.
        whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        shown = whole.replace("\r\n", "\n").translate(_SHOWN)
    elif isinstance(value, list):
        shown = [printable(item) for item in value]
    elif isinstance(value, dict):
        shown = {printable(key): printable(item) for key, item in value.items()}
    result: AnyJson = shown
    return result


_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
_DIRECTIONS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_SHOWN = {code: f"[U+{code:04X}]" for code in _CONTROLS | _DIRECTIONS}


def _read_figures(file: Path) -> ResultsRecord | None:
    if not file.exists():
        return None
    hint = "Delete the file to report what the events say, or train the run again."
    try:
        table = printable(json.loads(file.read_bytes()))
    except ValueError as problem:
        what = f"damaged, not JSON ({problem})"
        raise UserError(what, topic="run", where=str(file), hint=hint) from None
    schema = table.get("schema") if isinstance(table, dict) else None
    if schema != SCHEMA:
        raise UserError(
            f"schema {schema!r} is unknown; this regard reads schema {SCHEMA}",
            topic="run",
            where=str(file),
            hint="Use the version of regard that wrote it.",
        )
    try:
        return ResultsRecord.model_validate(table)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(str(step) for step in first["loc"])
        what = f"damaged at {key}: {first['msg']}" if key else f"damaged: {first['msg']}"
        raise UserError(what, topic="run", where=str(file), hint=hint) from None


def _read_events(file: Path) -> Events:
    events = Events()
    if not file.is_file():
        return events
    with file.open("rb") as lines:
        for line in lines:
            try:
                _add(events, json.loads(line))
            except (ValueError, TypeError, AttributeError, KeyError):
                # Broken JSON, or JSON that is no event. Without its newline it is merely the line
                # being written while we read, or cut short by a kill.
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
        events.resumed_from.append(int(table["step"]))
        for seen in _series(events):
            while seen and seen[-1].step > table["step"]:
                seen.pop()
    elif kind == "finish":
        events.finished_at = int(table["step"])


AtStep = TypeVar("AtStep", StepEvent, EvaluationEvent, SamplesEvent)


def _append(seen: list[AtStep], event: AtStep) -> None:
    # Steps only go back when a run is resumed; the resume line itself may have been lost.
    while seen and seen[-1].step >= event.step:
        seen.pop()
    seen.append(event)


def _series(events: Events) -> Iterator[list[Any]]:
    yield events.steps
    yield events.evaluations
    yield events.samples
