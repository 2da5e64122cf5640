"""Ctrl-C, SIGTERM and SIGHUP at any moment of a training: saved, said, and then the same bits."""

from __future__ import annotations

import random
import signal
from pathlib import Path

from tests.torture.commands import (
    check,
    forked,
    invoke_into,
    signal_within,
    wait,
    without_charts,
)
from tests.torture.harness import Failure, Target
from tests.torture.training import Reference, finish_and_compare, fresh_copy, train_reference

TRAIN = ("train", "tiny.toml", "--resume")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LONGEST_WAIT = 0.8


def trial(reference: Reference, generator: random.Random, folder: Path) -> str:
    workspace = fresh_copy(reference, folder)
    stopped = 0
    for attempt in range(generator.choice((1, 2, 3))):
        number, log = generator.choice(SIGNALS), folder / f"stderr{attempt}"

        def action(log: Path = log) -> int:
            with without_charts():
                return invoke_into(workspace, log, *TRAIN)

        child = forked(action)
        if not signal_within(child, number, after=generator.uniform(0.02, LONGEST_WAIT)):
            break
        code = wait(child)
        stderr = log.read_text(encoding="utf-8") if log.is_file() else ""
        check(max(code, 0), stderr or "none yet", TRAIN)
        if code not in (0, 128 + number, -number):
            raise Failure("crashed", f"{number.name}: exit code {code}: {stderr[-300:]}")
        stopped += code != 0
    finish_and_compare(reference, workspace)
    return "stopped, then the same bits" if stopped else "finished first"


TARGET = Target(
    "signals",
    "Ctrl-C, SIGTERM, SIGHUP at any moment of a training, up to three times",
    300,
    trial,
    train_reference,
)
