"""A small training that trials interrupt, and the bits that it has to end with all the same."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.journeys.workspace import Workspace, weights
from tests.torture.commands import one_thread, tortured, without_charts, workspace_at
from tests.torture.harness import Failure

RUN = "runs/tiny"
STEPS = 20


@dataclass(frozen=True)
class Reference:
    """The uninterrupted run, and what every interrupted one has to equal."""

    workspace: Workspace
    weights: str
    estimates: Any
    steps: list[int]


def train_reference(home: Path) -> Reference:
    workspace = workspace_at(home / "work")
    run = workspace.folder / RUN
    if not run.is_dir():  # else an earlier session's, with --home
        workspace.recipe()
        with without_charts():
            workspace.run("train", "tiny.toml")
    one_thread()
    return Reference(workspace, weights(run), estimates(run), logged_steps(run))


def estimates(run: Path) -> Any:
    return json.loads((run / "results.json").read_text(encoding="utf-8"))["estimates"]


def logged_steps(run: Path) -> list[int]:
    lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    return [event["step"] for event in events if event["event"] == "step"]


def fresh_copy(reference: Reference, folder: Path, *, with_run: bool = False) -> Workspace:
    """The workspace before the training, its token cache filled."""
    ignored = None if with_run else shutil.ignore_patterns("runs")
    shutil.copytree(reference.workspace.folder, folder / "work", ignore=ignored)
    return Workspace(folder / "work")


def finish_and_compare(reference: Reference, workspace: Workspace) -> None:
    """Resume to the end: the same weights, scores, and every step once."""
    with without_charts():
        result = tortured(workspace, "train", "tiny.toml", "--resume")
    if result.exit_code:
        raise Failure("lost", f"does not resume: {result.stderr.strip()[-300:]}")
    compare(reference, workspace.folder / RUN)


def compare(reference: Reference, run: Path) -> None:
    if weights(run) != reference.weights:
        raise Failure("lost", "other weights than without the fault")
    if estimates(run) != reference.estimates:
        raise Failure("lost", "other scores than without the fault")
    steps = logged_steps(run)
    if sorted({*steps}) != steps or steps[-1] != reference.steps[-1]:
        raise Failure("lost", f"logged steps {steps}, without the fault {reference.steps}")
