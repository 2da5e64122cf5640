"""Damage to any file of a finished study or of its runs: never believed."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.journeys.workspace import Workspace
from tests.torture.commands import tortured
from tests.torture.harness import Failure, Target
from tests.torture.small_study import COMPARE, STUDY, in_this_process, judge_small_study
from tests.torture.targets.bit_flips import NAMED, a_file, damage

READERS = (("report", STUDY), COMPARE, ("runs", "--json"))


@dataclass(frozen=True)
class Prepared:
    workspace: Workspace
    shown: dict[tuple[str, ...], str]


def show(workspace: Workspace, command: tuple[str, ...]) -> tuple[int, str, str]:
    with in_this_process():
        result = tortured(workspace, *command)
    shown = result.stdout
    if command[0] == "report" and result.exit_code == 0:
        shown += (workspace.folder / STUDY / "report.html").read_text(encoding="utf-8")
    return result.exit_code, shown, result.stderr + shown


def make(home: Path) -> Prepared:
    workspace = judge_small_study(home)
    shutil.rmtree(home / "pristine", ignore_errors=True)
    pristine = Workspace(Path(shutil.copytree(workspace.folder, home / "pristine")))
    return Prepared(workspace, {command: show(pristine, command)[1] for command in READERS})


def trial(made: Prepared, generator: random.Random, folder: Path) -> str:
    workspace = Workspace(Path(shutil.copytree(made.workspace.folder, folder / "work")))
    damage(a_file(workspace.folder / STUDY, generator), generator)
    command = generator.choice(READERS)
    code, shown, said = show(workspace, command)
    if code:
        return "detected and named"
    if shown == made.shown[command]:
        return "harmless: shows the same"
    if any(word in said for word in NAMED):
        return "detected and named"
    raise Failure("believed", f"regard {' '.join(command)} shows something else without a word")


TARGET = Target(
    "study damage",
    "flipped bits, lost ends, zeroed or repeated blocks in any file of a study and its runs",
    2_000,
    trial,
    make,
    batch=10,
)
