"""The event log: what is written is read back, and a resumed run keeps what came before."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from regard.runs.archive.read_run import read_run
from regard.studies.engines.run_events import progress
from regard.training.events import (
    CheckpointEvent,
    EvaluationEvent,
    Event,
    EventLog,
    FinishEvent,
    RemarkEvent,
    ResumeEvent,
    SamplesEvent,
    StartEvent,
    StepEvent,
)

EVENTS = (
    StartEvent(time="now", steps=4, parameters=10),
    StepEvent(step=2, loss=5.0, tokens=64, seconds=0.5, lr=1e-3, gradient_norm=1.5),
    EvaluationEvent(step=2, loss=5.1, n=20, scores={"perplexity": 164.0}),
    SamplesEvent(step=2, texts=("a b", "…")),
    CheckpointEvent(step=2),
    RemarkEvent(text="no step"),
    StepEvent(step=4, loss=4.0),
    FinishEvent(step=4, seconds=1.0),
)


def write(file: Path, *events: Event, after_step: int = 0) -> None:
    log = EventLog(file, after_step=after_step)
    for event in events:
        log(event)
    log.close()


def lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_what_is_written_is_read(tmp_path):
    write(tmp_path / "events.jsonl", *EVENTS)
    events = read_run(tmp_path).events
    assert events.start == EVENTS[0]
    assert events.steps == [EVENTS[1], EVENTS[6]]
    assert events.evaluations == [EVENTS[2]]
    assert events.samples == [EVENTS[3]]
    assert (events.finished_at, events.unreadable_lines) == (4, 0)


def test_a_resumed_run_drops_what_it_repeats(tmp_path):
    file = tmp_path / "events.jsonl"
    write(file, *EVENTS)
    write(file, ResumeEvent(step=2), after_step=2)
    kinds = [event["event"] for event in lines(file)]
    assert kinds == ["start", "step", "evaluation", "sample", "checkpoint", "remark", "resume"]
    assert read_run(tmp_path).events.resumed_from == [2]


@pytest.mark.parametrize(
    "damaged", ['{"evenu": "step", "step": 1}', '{"event": "ste', "[1]", '{"step": null}', "\x00"]
)
def test_a_damaged_line_does_not_stop_a_resumed_run(tmp_path, damaged):
    file = tmp_path / "events.jsonl"
    write(file, *EVENTS)
    file.write_text(damaged + "\n" + file.read_text())
    write(file, ResumeEvent(step=2), after_step=2)
    assert len(read_run(tmp_path).events.steps) == 1


def test_a_run_that_starts_again_drops_everything(tmp_path):
    file = tmp_path / "events.jsonl"
    write(file, *EVENTS)
    write(file, EVENTS[0], after_step=0)
    assert len(lines(file)) == 1


def test_one_flipped_bit_costs_at_most_one_event(tmp_path):
    """Whatever bit of the log is flipped: it is resumed, read, and followed by its study."""
    file, generator = tmp_path / "events.jsonl", random.Random(0)
    write(file, *EVENTS)
    intact = file.read_bytes()
    for position in range(len(intact)):
        damaged = bytearray(intact)
        damaged[position] ^= 1 << generator.randrange(8)
        file.write_bytes(damaged)
        read_run(tmp_path)
        progress(tmp_path)
        EventLog(file, after_step=4).close()
        # A resume drops the finish, and a damaged newline joins two lines.
        assert len(lines(file)) >= len(EVENTS) - 3


@pytest.mark.parametrize("damage", [b'"evenu"', b'"Event"'])
def test_an_event_without_its_kind_is_counted(tmp_path, damage):
    file = tmp_path / "events.jsonl"
    write(file, *EVENTS)
    file.write_bytes(file.read_bytes().replace(b'"event"', damage, 1))
    log = EventLog(file, after_step=4)
    log.close()
    assert log.damaged_lines == 1
    assert lines(file) == [event.model_dump(mode="json") for event in EVENTS[1:-1]]
