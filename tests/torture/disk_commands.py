"""DiskCommands that change the disk, and what has to be true however one of them was cut short."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.journeys.workspace import CommandResult, Workspace, weights
from tests.torture.commands import tortured
from tests.torture.harness import Failure
from tests.torture.small_study import COMPARE, STUDY, in_this_process, judge_small_study
from tests.torture.training import RUN, Reference, finish_and_compare, fresh_copy, train_reference

from regard.core.files import find_damage


@dataclass(frozen=True)
class DiskCommand:
    """A command, the workspace it is typed in, and a check."""

    command: tuple[str, ...]
    prepare: Callable[[Path], Workspace]
    "The workspace before it, in an empty folder."
    check: Callable[[Workspace], None]
    "Reads what is there, types the command again; `Failure` if anything is half there, or other."

    def do(self, workspace: Workspace) -> CommandResult:
        with in_this_process():
            result = workspace.invoke(*self.command)
        if result.exit_code:
            print(result.stderr[-1000:], file=sys.stderr)
        return result


@dataclass(frozen=True)
class DiskCommands:
    """Of one small training, a study and an import."""

    trained: Reference
    by_name: Mapping[str, DiskCommand]


def find_disk_commands(home: Path) -> DiskCommands:
    """What they start from is made below `home`, once."""
    trained = train_reference(home / "trained")
    commands = {
        "training": _training(trained),
        "study": _study(home / "studied"),
        "import": _import(trained, home / "imported"),
        "export": _export(trained),
        "deletion": _deletion(trained),
    }
    return DiskCommands(trained, commands)


def _training(reference: Reference) -> DiskCommand:
    def check(workspace: Workspace) -> None:
        finish_and_compare(reference, workspace)

    train = ("train", "tiny.toml", "--resume")
    return DiskCommand(train, lambda folder: fresh_copy(reference, folder), check)


def _study(home: Path) -> DiskCommand:
    judged = judge_small_study(home)
    before = shutil.ignore_patterns("runs")
    expected = _study_results(judged.folder / STUDY)

    def prepare(folder: Path) -> Workspace:
        return Workspace(Path(shutil.copytree(judged.folder, folder / "work", ignore=before)))

    def check(workspace: Workspace) -> None:
        with in_this_process():
            tortured(workspace, "runs", "--json")
            if (workspace.folder / STUDY).is_dir():
                tortured(workspace, "report", STUDY)
            result = tortured(workspace, *COMPARE)
        if result.exit_code:
            raise Failure("lost", f"the study does not go on: {result.stderr.strip()[-300:]}")
        if _study_results(workspace.folder / STUDY) != expected:
            raise Failure("lost", "other weights or verdicts than without the fault")

    return DiskCommand(COMPARE, prepare, check)


def _study_results(home: Path) -> Any:
    outcome = json.loads((home / "outcome.json").read_text(encoding="utf-8"))
    runs = sorted(folder.parent for folder in home.glob("*/seed-*/final"))
    spreads = {variant["name"]: variant["estimates"] for variant in outcome["variants"]}
    return outcome["verdicts"], spreads, {str(run.relative_to(home)): weights(run) for run in runs}


def _import(reference: Reference, home: Path) -> DiskCommand:
    """Of a folder of Hugging Face's, which an export makes."""
    shutil.rmtree(home, ignore_errors=True)
    exported = fresh_copy(reference, home, with_run=True)
    exported.run("export", RUN, "--out", "theirs")
    shutil.rmtree(exported.folder / "runs")
    command = ("import", "theirs", "--out", "ours")
    done = Workspace(Path(shutil.copytree(exported.folder, home / "done")))
    done.run(*command)
    expected = find_bytes(done.folder / "ours")

    def prepare(folder: Path) -> Workspace:
        return Workspace(Path(shutil.copytree(exported.folder, folder / "work")))

    def check(workspace: Workspace) -> None:
        ours = workspace.folder / "ours"
        if ours.is_dir() and find_damage(ours) is not None:
            refused = tortured(workspace, "generate", "ours", "the cat")
            if refused.exit_code == 0:
                raise Failure("believed", "generates from half a model folder")
            shutil.rmtree(ours)
        if not ours.is_dir():
            workspace.run(*command)
        if find_bytes(ours) != expected:
            raise Failure("believed", "another model folder, with a manifest that fits")

    return DiskCommand(command, prepare, check)


def find_bytes(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def _export(reference: Reference) -> DiskCommand:
    command = ("export", RUN, "--out", "exported")

    def check(workspace: Workspace) -> None:
        out = workspace.folder / "exported"
        if not out.exists():
            workspace.run(*command)
        if not (out / "model.safetensors").is_file() or not (out / "config.json").is_file():
            raise Failure("believed", "half an export under its final name")

    return DiskCommand(command, lambda folder: fresh_copy(reference, folder, with_run=True), check)


def _deletion(reference: Reference) -> DiskCommand:
    command = ("runs", "tiny", "--delete", "--yes")

    def check(workspace: Workspace) -> None:
        tortured(workspace, "runs")
        run = workspace.folder / RUN
        if (run / "results.json").is_file() and find_damage(run / "final") is not None:
            raise Failure("lost", "half a run under its name")
        tortured(workspace, *command)
        if run.exists():
            raise Failure("lost", "cannot be deleted after a killed deletion")

    return DiskCommand(command, lambda folder: fresh_copy(reference, folder, with_run=True), check)
