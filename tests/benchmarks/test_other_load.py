"""What other processes take of the machine while something is timed."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from benchmarks.grid.contestants import ContestantProcess
from benchmarks.speed import other_load
from benchmarks.speed.other_load import MAX_TURNS, Timed, timed

BUSY = "while True: pass"


@pytest.mark.skipif(not other_load.STAT.exists(), reason="counted on Linux alone")
def test_another_process_is_seen():
    other = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        time.sleep(0.2)
        assert timed(lambda: time.sleep(0.6)).is_disturbed
    finally:
        other.kill()
        other.wait()


def test_own_work_is_no_disturbance(tmp_path, monkeypatch):
    """The file counts what this process burned, and half of it again by another."""
    file = tmp_path / "stat"
    monkeypatch.setattr(other_load, "STAT", file)
    monkeypatch.setattr(other_load, "usable_cores", lambda: 2)

    def work(others):
        began = other_load._own_seconds()
        while other_load._own_seconds() < began + 0.2:
            pass
        file.write_text(f"cpu  {100 + 20 + others} 0 0 999 9 0 0 0 0 0\ncpu0 7\n")

    for others in (0, 30):
        file.write_text("cpu  100 0 0 5 5 0 0 0 0 0\ncpu0 1\n")
        turn = timed(lambda taken=others: work(taken))
        expected = max(0, others - other_load.TICKS) / 100 / 2 / turn.seconds
        assert turn.others == pytest.approx(expected, abs=0.02)


class Answers(ContestantProcess):
    """A contestant whose turns are known."""

    def __init__(self, answers):
        self.answers, self.most_disturbed = iter(answers), 0.0

    def _ask(self, request):
        return next(self.answers)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(other_load, "CALM_SECONDS", 0.0)


def test_a_disturbed_turn_is_taken_again():
    contestant = Answers([Timed(9.0, 0.5), Timed(2.0, 0.01), Timed(1.0, 0.0)])
    assert contestant.turn(2) == 1.0
    assert contestant.most_disturbed == 0.01


def test_where_none_is_calm_the_calmest_counts():
    turns = [Timed(float(n), 1.0 / n) for n in range(1, MAX_TURNS + 1)]
    contestant = Answers(turns)
    assert contestant.turn(1) == MAX_TURNS
    assert contestant.most_disturbed == pytest.approx(1 / MAX_TURNS)
