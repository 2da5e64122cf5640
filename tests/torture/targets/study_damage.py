"""Damage to any file of a finished study or of its runs: never believed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import tomli_w
from tests.in_process_trainings import InProcessWorker
from tests.journeys.workspace import Workspace
from tests.torture.commands import one_thread, tortured, without_charts, workspace_at
from tests.torture.harness import Failure, Target
from tests.torture.targets.bit_flips import NAMED, a_file, damage

from regard.reports import study_report

STUDY = "runs/study"
READERS = (("report", STUDY), ("compare", "study.toml"), ("runs", "--json"))


@dataclass(frozen=True)
class Prepared:
    workspace: Workspace
    shown: dict[tuple[str, ...], str]


@contextmanager
def in_this_process() -> Iterator[None]:
    """Studies train here instead of in processes of their own, and draw no charts."""
    engine = "regard.studies.engines.local"
    no_charts = {name: lambda *_, **__: None for name in study_report.CHARTS}
    with ExitStack() as stack:
        stack.enter_context(mock.patch(f"{engine}.WorkerProcess", InProcessWorker))
        stack.enter_context(mock.patch(f"{engine}.POLL_SECONDS", 0.0))
        stack.enter_context(mock.patch.object(study_report, "CHARTS", no_charts))
        stack.enter_context(without_charts())
        yield


def show(workspace: Workspace, command: tuple[str, ...]) -> tuple[int, str, str]:
    with in_this_process():
        result = tortured(workspace, *command)
    shown = result.stdout
    if command[0] == "report" and result.exit_code == 0:
        shown += (workspace.folder / STUDY / "report.html").read_text(encoding="utf-8")
    return result.exit_code, shown, result.stderr + shown


def make(home: Path) -> Prepared:
    workspace = workspace_at(home / "work")
    workspace.recipe(train__max_steps=6, train__evaluate_every=3, train__checkpoint_every=0)
    variants = {"one": {}, "slow": {"train.lr": 1e-5}}
    study = {"base": "tiny.toml", "seeds": [0, 1], "question": "Which?", "variants": variants}
    workspace.write("study.toml", tomli_w.dumps(study))
    with in_this_process():
        workspace.run("compare", "study.toml")
    one_thread()
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
