"""Two to eight processes at once on one run, one study, one token cache, or one index of runs."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.journeys.workspace import Workspace
from tests.torture.commands import tortured
from tests.torture.disk_commands import DiskCommand, find_disk_commands
from tests.torture.harness import Failure, Target
from tests.torture.races import Command, race
from tests.torture.small_study import COMPARE, STUDY
from tests.torture.training import RUN, Reference, compare, finish_and_compare, fresh_copy

ON_A_RUN: tuple[Command, ...] = (
    *[("train", "tiny.toml", "--resume")] * 4,
    ("train", "tiny.toml"),
    ("runs",),
    ("report", RUN),
    ("evaluate", RUN),
    ("runs", "tiny", "--delete", "--yes"),
)
ON_A_STUDY: tuple[Command, ...] = (
    *[COMPARE] * 3,
    ("report", STUDY),
    ("runs", "--json"),
    ("plan", "study.toml"),
    ("runs", "study/one/seed-0", "--delete", "--yes"),
)
INDEX = "runs/.index.json"


@dataclass(frozen=True)
class Prepared:
    trained: Reference
    study: DiskCommand


def make(home: Path) -> Prepared:
    commands = find_disk_commands(home)
    return Prepared(commands.trained, commands.by_name["study"])


def on_a_run(made: Prepared, generator: random.Random, folder: Path) -> str:
    workspace = fresh_copy(made.trained, folder, with_run=generator.random() < 0.3)
    race(workspace, folder, _some(ON_A_RUN, generator))
    finish_and_compare(made.trained, workspace)
    return "run: same bits"


def on_a_study(made: Prepared, generator: random.Random, folder: Path) -> str:
    workspace = made.study.prepare(folder)
    race(workspace, folder, _some(ON_A_STUDY, generator))
    made.study.check(workspace)
    return "study: same bits"


def on_a_cache(made: Prepared, generator: random.Random, folder: Path) -> str:
    """Trainings of the same data in other folders, and no cache, or half of one, before them."""
    workspace = fresh_copy(made.trained, folder)
    shutil.rmtree(workspace.folder / "cache")
    names = [f"runs/{number}" for number in range(generator.randrange(2, 9))]
    codes = race(workspace, folder, [("train", "tiny.toml", "--out", name) for name in names])
    if any(codes):
        raise Failure("crashed", f"exit codes {codes} of trainings that share nothing but a cache")
    for name in names:
        compare(made.trained, workspace.folder / name)
    return "cache: same bits"


def on_an_index(made: Prepared, generator: random.Random, folder: Path) -> str:
    """Lists of runs while runs come and go: the index that is left says what is there."""
    workspace = fresh_copy(made.trained, folder, with_run=True)
    for number in range(3):
        shutil.copytree(workspace.folder / RUN, workspace.folder / f"runs/{number}")
    deletions = [("runs", str(number), "--delete", "--yes") for number in range(3)]
    listings: list[Command] = [("runs", "--json")] * 4
    race(workspace, folder, _some((*listings, *deletions, ("evaluate", RUN)), generator))
    with_index = _listed(workspace)
    (workspace.folder / INDEX).unlink(missing_ok=True)
    if with_index != _listed(workspace):
        raise Failure("believed", "the index lists other runs than there are")
    return "index: as the folders are"


def _listed(workspace: Workspace) -> Any:
    return json.loads(tortured(workspace, "runs", "--json").stdout)


def _some(commands: tuple[Command, ...], generator: random.Random) -> list[Command]:
    return [generator.choice(commands) for _ in range(generator.randrange(2, 9))]


def trial(made: Prepared, generator: random.Random, folder: Path) -> str:
    kinds = (on_a_run, on_a_run, on_a_study, on_a_cache, on_an_index)
    return generator.choice(kinds)(made, generator, folder)


TARGET = Target(
    "processes",
    "two to eight processes at once on one run, one study, one token cache, one index of runs",
    200,
    trial,
    make,
    seconds=180,
)
