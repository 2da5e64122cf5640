"""kill -9 before or after any write of a training, an import, an export or a deletion."""

from __future__ import annotations

import os
import random
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.journeys.workspace import Workspace
from tests.torture.commands import forked, tortured, wait, without_charts
from tests.torture.harness import Failure, Target
from tests.torture.training import (
    RUN,
    Reference,
    finish_and_compare,
    fresh_copy,
    train_reference,
)
from tests.torture.write_points import at_every_write, count_writes

from regard.core.files import find_damage

TRAIN = ("train", "tiny.toml", "--resume")
OTHERS = {
    "export": ("export", RUN, "--out", "exported"),
    "deletion": ("runs", "tiny", "--delete", "--yes"),
}


@dataclass(frozen=True)
class Prepared:
    reference: Reference
    writes: dict[str, int]


def make(home: Path) -> Prepared:
    reference = train_reference(home)
    writes = {}
    with without_charts():
        for name, arguments in {"training": TRAIN, **OTHERS}.items():
            workspace = fresh_copy(reference, home / name, with_run=name != "training")
            writes[name] = count_writes(lambda w=workspace, a=arguments: w.run(*a))  # type: ignore[misc]
            shutil.rmtree(home / name)
    return Prepared(reference, writes)


def killed(workspace: Workspace, arguments: tuple[str, ...], at: int, *, after: bool) -> bool:
    """Run a command that is killed at a write; whether it was, before it ended."""

    def fault(number: int, done: bool) -> None:
        if number == at and done is after:
            os.kill(os.getpid(), signal.SIGKILL)

    def action() -> int:
        with at_every_write(fault), without_charts():
            return workspace.invoke(*arguments).exit_code

    code = wait(forked(action))
    if code not in (0, -signal.SIGKILL):
        raise Failure("crashed", f"{arguments[0]}: exit code {code}")
    return code != 0


def trial(made: Prepared, generator: random.Random, folder: Path) -> str:
    name = generator.choices(list(made.writes), weights=[7, 1, 1])[0]
    if name != "training":
        return other(made, name, generator, folder)
    workspace = fresh_copy(made.reference, folder)
    kills = 0
    for _ in range(generator.choice((1, 1, 2, 4))):
        at = generator.randrange(1, made.writes[name] + 1)
        kills += killed(workspace, TRAIN, at, after=generator.random() < 0.5)
    finish_and_compare(made.reference, workspace)
    return "same bits" if kills else "finished first"


def other(made: Prepared, name: str, generator: random.Random, folder: Path) -> str:
    workspace = fresh_copy(made.reference, folder, with_run=True)
    at = generator.randrange(1, made.writes[name] + 1)
    killed(workspace, OTHERS[name], at, after=generator.random() < 0.5)
    if name == "export":
        out = workspace.folder / "exported"
        if not out.exists():
            workspace.run(*OTHERS[name])
        if not (out / "model.safetensors").is_file() or not (out / "config.json").is_file():
            raise Failure("believed", "half an export under its final name")
        return "all or nothing"
    tortured(workspace, "runs")
    run = workspace.folder / RUN
    if (run / "results.json").is_file() and find_damage(run / "final") is not None:
        raise Failure("lost", "half a run under its name")
    tortured(workspace, *OTHERS[name])
    if run.exists():
        raise Failure("lost", "cannot be deleted after a killed deletion")
    return "all or nothing"


TARGET = Target(
    "kills",
    "kill -9 before or after any write of a training (up to four times), an export, a deletion",
    1_000,
    trial,
    make,
)
