"""kill -9 at any write or moment of a training, a study, an import, an export or a deletion."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.journeys.workspace import Workspace
from tests.torture.commands import forked, signal_within, wait
from tests.torture.disk_commands import DiskCommand, find_disk_commands
from tests.torture.harness import Failure, Target
from tests.torture.write_points import at_every_write, count_writes

WEIGHTS = {"training": 5, "study": 2, "import": 1, "export": 1, "deletion": 1}
LONGEST_WAIT = 1.0


@dataclass(frozen=True)
class Prepared:
    commands: Mapping[str, DiskCommand]
    writes: dict[str, int]


def make(home: Path) -> Prepared:
    commands, counted = find_disk_commands(home).by_name, home / "writes.json"
    if not counted.is_file():
        writes = {}
        for name, command in commands.items():
            workspace = command.prepare(home / f"counted {name}")
            writes[name] = count_writes(lambda w=workspace, d=command: _done(d, w))  # type: ignore[misc]
            shutil.rmtree(workspace.folder)
        counted.write_text(json.dumps(writes), encoding="utf-8")
    return Prepared(commands, json.loads(counted.read_text(encoding="utf-8")))


def _done(command: DiskCommand, workspace: Workspace) -> None:
    result = command.do(workspace)
    assert result.exit_code == 0, result.stderr


def killed_at_a_write(command: DiskCommand, workspace: Workspace, at: int, *, after: bool) -> bool:
    """Do it, killed at a write; whether it was, before it ended."""

    def fault(number: int, done: bool) -> None:
        if number == at and done is after:
            os.kill(os.getpid(), signal.SIGKILL)

    def action() -> int:
        with at_every_write(fault):
            return command.do(workspace).exit_code

    return _was_killed(wait(forked(action)), command)


def killed_at_any_moment(command: DiskCommand, workspace: Workspace, *, after: float) -> bool:
    child = forked(lambda: command.do(workspace).exit_code)
    if not signal_within(child, signal.SIGKILL, after=after):
        return False
    return _was_killed(wait(child), command)


def _was_killed(code: int, command: DiskCommand) -> bool:
    if code not in (0, -signal.SIGKILL):
        raise Failure("crashed", f"{command.command[0]}: exit code {code}")
    return code != 0


def trial(made: Prepared, generator: random.Random, folder: Path) -> str:
    name = generator.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
    command = made.commands[name]
    workspace = command.prepare(folder)
    kills = 0
    # What is not resumed is done once: a second export would be refused.
    for _ in range(generator.choice((1, 1, 2, 4)) if name in ("training", "study") else 1):
        at = generator.randrange(1, made.writes[name] + 1)
        moment, after = generator.uniform(0.0, LONGEST_WAIT), generator.random() < 0.5
        if generator.random() < 0.3:
            kills += killed_at_any_moment(command, workspace, after=moment)
        else:
            kills += killed_at_a_write(command, workspace, at, after=after)
    command.check(workspace)
    if not kills:
        return "finished first"
    return "same bits" if name in ("training", "study") else "all or nothing"


TARGET = Target(
    "kills",
    "kill -9 at any write or moment of a training or a study (up to four times), an import, an "
    "export, a deletion",
    1_000,
    trial,
    make,
)
