"""Machines that share a folder over a network: locks refused or worthless, changes seen late."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.torture.harness import Target
from tests.torture.network_folder import Locks, machine
from tests.torture.races import race
from tests.torture.targets.processes import ON_A_RUN
from tests.torture.training import Reference, finish_and_compare, fresh_copy, train_reference

LOCKS: tuple[Locks, ...] = ("refused", "granted to all", "real")
LONGEST_LIFE = 1.5


def trial(reference: Reference, generator: random.Random, folder: Path) -> str:
    workspace = fresh_copy(reference, folder, with_run=generator.random() < 0.2)
    shared = workspace.folder
    locks, late = generator.choice(LOCKS), generator.random() < 0.7
    commands = [generator.choice(ON_A_RUN) for _ in range(generator.randrange(2, 5))]
    dies = {number: generator.uniform(0.05, LONGEST_LIFE) for number in range(len(commands))}
    doomed = generator.sample(range(len(commands)), generator.choice((0, 0, 1)))

    @contextmanager
    def one_of_them(number: int) -> Iterator[None]:
        if number in doomed:
            threading.Timer(dies[number], os.kill, (os.getpid(), signal.SIGKILL)).start()
        with machine(f"machine-{number}", shared, locks=locks, late=late):
            yield

    race(workspace, folder, commands, machine=one_of_them, may_be_killed=True)
    with machine("the last one", shared, locks=locks, late=False):
        finish_and_compare(reference, workspace)
    return f"locks {locks}: same bits"


TARGET = Target(
    "network folders",
    "two to four machines, of which one may die, on one run in a folder whose locks are refused, "
    "worthless or real, and where changes of others are seen late",
    200,
    trial,
    train_reference,
    seconds=120,
)
