"""Read a run folder: reports and comparisons show what is in these files, and nothing else.

    recipe.toml     the resolved recipe
    events.jsonl    events of the training, one JSON object a line
    results.json    the final evaluation; absent while the run is not finished

A run may have been killed and resumed. Events after the step it was resumed from are dropped, and
so is a line truncated by the kill.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from regard.core.errors import UserError
from regard.runs.archive.record import (
    RESULTS_SCHEMA,
    EvaluationEvent,
    Events,
    ResultsRecord,
    RunRecord,
    SamplesEvent,
    StartEvent,
    StepEvent,
)

FORMER_RESULTS = "figures.json"
"Name and keys of results.json in schema 1."


def read_run(folder: Path) -> RunRecord:
    """The run in `folder`, finished or not."""
    recipe, events = folder / "recipe.toml", folder / "events.jsonl"
    if not folder.is_dir() or not (recipe.is_file() or events.is_file()):
        problem = "has neither recipe.toml nor events.jsonl" if folder.is_dir() else "is no folder"
        raise UserError(
            f"not a run: it {problem}",
            topic="run",
            where=str(folder),
            hint="Give the folder that `regard train` wrote, such as runs/mini-gpt.",
        )
    results = _read_results(folder / "results.json")
    return RunRecord(
        folder=folder,
        name=(results.run if results else "") or printable(folder.resolve().name),
        recipe=printable(recipe.read_bytes().decode(errors="replace")) if recipe.is_file() else "",
        events=_read_events(events),
        results=results,
    )


AnyJson = TypeVar("AnyJson")


def printable(value: AnyJson) -> AnyJson:
    """JSON with every text safe to show: control characters become `[U+0000]` and the like.

    A model may generate anything: control characters, lone surrogates, which UTF-8 cannot encode,
    and bidirectional overrides, which change what a page seems to say.
    """
    shown: Any = value
    if isinstance(value, str):
        # Through UTF-16, surrogate pairs become the character they encode.
        text = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        shown = text.replace("\r\n", "\n").translate(_SHOWN)
    elif isinstance(value, list):
        shown = [printable(item) for item in value]
    elif isinstance(value, dict):
        shown = {printable(key): printable(item) for key, item in value.items()}
    result: AnyJson = shown
    return result


_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
_DIRECTIONS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_SHOWN = {code: f"[U+{code:04X}]" for code in _CONTROLS | _DIRECTIONS}


def _read_results(file: Path) -> ResultsRecord | None:
    if not file.exists():
        if (former := file.with_name(FORMER_RESULTS)).exists():
            raise UserError(
                f"schema 1 of an earlier version; this regard reads {file.name}, schema "
                f"{RESULTS_SCHEMA}",
                topic="run",
                where=str(former),
                hint="Use the version of regard that wrote it, or train the run again.",
            )
        return None
    hint = "Delete the file to report what the events say, or train the run again."
    try:
        table = printable(json.loads(file.read_bytes()))
    except ValueError as problem:
        what = f"damaged, not JSON ({problem})"
        raise UserError(what, topic="run", where=str(file), hint=hint) from None
    schema = table.get("schema") if isinstance(table, dict) else None
    if schema != RESULTS_SCHEMA:
        raise UserError(
            f"schema {schema!r} is unknown; this regard reads schema {RESULTS_SCHEMA}",
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
        events.resumed_from.append(int(table["step"]))
        for series in _series(events):
            while series and series[-1].step > table["step"]:
                series.pop()
    elif kind == "finish":
        events.finished_at = int(table["step"])


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
