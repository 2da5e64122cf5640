"""Power lost at any write of a training: every state of the disk resumes to the same bits."""

from __future__ import annotations

import os
import random
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.torture.commands import forked, wait, without_charts
from tests.torture.harness import Failure, Target
from tests.torture.power import lose_power, recording
from tests.torture.training import Reference, finish_and_compare, fresh_copy, train_reference
from tests.torture.write_points import at_every_write, count_writes

TRAIN = ("train", "tiny.toml", "--resume")


@dataclass(frozen=True)
class Prepared:
    reference: Reference
    writes: int


def make(home: Path) -> Prepared:
    reference = train_reference(home)
    workspace = fresh_copy(reference, home / "counted")
    with without_charts():
        writes = count_writes(lambda: workspace.run(*TRAIN))
    shutil.rmtree(home / "counted")
    return Prepared(reference, writes)


def trial(made: Prepared, generator: random.Random, folder: Path) -> str:
    if not Path("/proc/self/fd").is_dir():
        return "not on this system"
    workspace = fresh_copy(made.reference, folder)
    lost = 0
    for attempt in range(generator.choice((1, 1, 2))):
        store = folder / f"store{attempt}"
        store.mkdir()
        at, after = generator.randrange(1, made.writes + 1), generator.random() < 0.5

        def action(store: Path = store, at: int = at, after: bool = after) -> int:
            with recording(workspace.folder / "runs", store) as recorder:

                def fault(number: int, done: bool) -> None:
                    if number == at and done is after:
                        recorder.write()
                        os.kill(os.getpid(), signal.SIGKILL)

                with at_every_write(fault), without_charts():
                    return workspace.invoke(*TRAIN).exit_code

        code = wait(forked(action))
        if code == 0:
            break
        if code != -signal.SIGKILL:
            raise Failure("crashed", f"exit code {code}")
        lose_power(workspace.folder / "runs", store, generator)
        lost += 1
    finish_and_compare(made.reference, workspace)
    return "same bits" if lost else "finished first"


TARGET = Target(
    "power loss",
    "power lost at any write of a training, unsynced writes and renames lost in any combination",
    1_000,
    trial,
    make,
)
