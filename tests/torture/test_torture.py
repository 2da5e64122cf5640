"""The harness finds what is planted; and a hundredth of the full counts finds nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.torture import ledger
from tests.torture.catalogue import find_targets
from tests.torture.harness import CAN_FORK, Failure, Target, run_target

PLANTED = ("fine", "believed", "traceback", "killed", "hangs", "fine")
TARGETS = [target.name for target in find_targets()]


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_the_harness_finds_what_is_planted(tmp_path: Path) -> None:
    numbers = {random.Random(f"planted {n}").random(): n for n in range(len(PLANTED))}

    def trial(context: None, generator: random.Random, folder: Path) -> str:
        kind = PLANTED[numbers[generator.random()]]
        (folder / "left").write_text("is not seen by the next trial")
        if kind == "believed":
            raise Failure("believed", "planted")
        if kind == "traceback":
            raise KeyError("planted")
        if kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "hangs":
            time.sleep(60)
        return kind

    target = Target("planted", "", 6, trial, seconds=0.5, batch=4)
    session = run_target(target, range(6), tmp_path)
    assert session.outcomes == {"fine": 2, "believed": 1, "crashed": 2, "hung": 1}
    assert [line.split(":")[0] for line in session.failures] == [
        f"planted {number}" for number in (1, 2, 3, 4)
    ]
    assert (session.first, session.last) == (0, 5)


def test_the_page_is_written_from_the_counts() -> None:
    assert ledger.PAGE.read_text(encoding="utf-8") == ledger.page()


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_believed_and_nothing_crashes(name: str) -> None:
    """In a process of its own, for what this one has loaded and started does not fork."""
    command = [sys.executable, "-m", "tests.torture", name, "--dry", "--again"]
    environment = {"TORTURE": "0.01", **os.environ}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
