"""A contestant in a process of its own tells of itself, takes its turns, and its end is noticed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.speed.own_process import OwnProcess, times_by_process

ROOT = Path(__file__).parents[2]
CONTESTANT = """
import os, sys
from benchmarks.speed.own_process import take_turns

turns = []

def run():
    print("work may print what it likes")
    turns.append(1)
    if len(turns) > 3:
        sys.exit("no more")

take_turns(run, warm_up=1, name=sys.argv[1], threads=os.environ["OMP_NUM_THREADS"])
"""


@pytest.fixture
def contestant(tmp_path: Path) -> Iterator[OwnProcess]:
    (tmp_path / "contestant.py").write_text(CONTESTANT, encoding="utf-8")
    paths = os.pathsep.join((str(ROOT), str(tmp_path)))
    process = OwnProcess("contestant", "ours", environment={"PYTHONPATH": paths})
    yield process
    process.end()


def test_it_tells_of_itself_and_takes_its_turns(contestant):
    assert contestant.said["name"] == "ours"
    assert int(contestant.said["threads"]) >= 1
    assert 0 <= contestant() < 10


def test_who_ends_before_its_turn_is_named(contestant):
    contestant()
    contestant()
    with pytest.raises(RuntimeError, match="contestant ours ended before its turn"):
        contestant()


def test_when_the_rounds_are_over_they_end(contestant):
    taken = times_by_process({"ours": contestant}, rounds=2)
    assert len(taken["ours"]) == 2
    with pytest.raises((RuntimeError, BrokenPipeError)):
        contestant()
