"""Power lost at any write of a training, a study or an import, unsynced changes in any order."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

from tests.torture.commands import forked, wait
from tests.torture.harness import Failure, Target
from tests.torture.power import lose_power, recording
from tests.torture.targets.kills import Prepared, make
from tests.torture.write_points import at_every_write

WEIGHTS = {"training": 4, "study": 2, "import": 2}


def trial(made: Prepared, generator: random.Random, folder: Path) -> str:
    if not Path("/proc/self/fd").is_dir():
        return "not on this system"
    name = generator.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
    command = made.commands[name]
    workspace = command.prepare(folder)
    lost = 0
    for attempt in range(generator.choice((1, 1, 2)) if name != "import" else 1):
        store = folder / f"store{attempt}"
        store.mkdir()
        at, after = generator.randrange(1, made.writes[name] + 1), generator.random() < 0.5

        def action(store: Path = store, at: int = at, after: bool = after) -> int:
            with recording(workspace.folder, store) as recorder:

                def fault(number: int, done: bool) -> None:
                    if number == at and done is after:
                        recorder.write()
                        os.kill(os.getpid(), signal.SIGKILL)

                with at_every_write(fault):
                    return command.do(workspace).exit_code

        code = wait(forked(action))
        if code == 0:
            break
        if code != -signal.SIGKILL:
            raise Failure("crashed", f"exit code {code}")
        lose_power(workspace.folder, store, generator)
        lost += 1
    command.check(workspace)
    return f"{name}: every bit again" if lost else "finished first"


TARGET = Target(
    "power loss",
    "power lost at any write of a training, a study, an import; unsynced changes of folders and "
    "files lost in any combination",
    1_000,
    trial,
    make,
    seconds=120,
)
