"""A worker process reports its info, takes its turns, and its exit is noticed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.speed.worker_process import WorkerProcess, interleaved_process_times

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
CONTESTANT = """
import os, sys
from benchmarks.speed.worker_process import serve_turns

turns = []

def run():
    print("a run may print to stdout")
    turns.append(1)
    if len(turns) > 3:
        sys.exit("no more")

variables = [name for name in os.environ if name.startswith("OMP_")]
serve_turns(run, warm_up=1, name=sys.argv[1], variables=variables)
"""


@pytest.fixture
def contestant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcess]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "contestant.py").write_text(CONTESTANT, encoding="utf-8")
    paths = os.pathsep.join((str(ROOT), str(tmp_path)))
    process = WorkerProcess("contestant", "ours", environment={"PYTHONPATH": paths})
    yield process
    process.end()


def test_worker_reports_info_and_takes_turns(contestant):
    assert contestant.info["name"] == "ours"
    assert not contestant.info["variables"]
    assert 0 <= contestant() < 10


def test_worker_that_exits_early_is_named(contestant):
    contestant()
    contestant()
    with pytest.raises(RuntimeError, match="contestant ours ended before its turn"):
        contestant()


def test_workers_end_after_the_last_round(contestant):
    times = interleaved_process_times({"ours": contestant}, rounds=2)
    assert len(times["ours"]) == 2
    with pytest.raises((RuntimeError, BrokenPipeError)):
        contestant()
