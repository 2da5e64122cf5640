"""Workspaces: a fresh one per test, and one with a finished run that all tests share."""

import shutil
from pathlib import Path

import pytest
from tests.journeys.workspace import Workspace, generated_text


@pytest.fixture(autouse=True)
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts take most of a report's time, and most tests read its text. The report of the shared
    workspace and those of `test_first_run.py` have them."""
    monkeypatch.setattr("regard.reports.run_report.draw_inline_charts", lambda *_: [])


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    fresh = Workspace(tmp_path)
    fresh.write("generated.txt", generated_text())
    return fresh


@pytest.fixture(scope="session")
def shared_workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with the run `runs/tiny`, trained once; read-only."""
    shared = Workspace(tmp_path_factory.mktemp("workspace"))
    shared.write("generated.txt", generated_text())
    shared.recipe()
    shared.run("train", "tiny.toml")
    return shared


@pytest.fixture
def trained(shared_workspace: Workspace, tmp_path: Path) -> Workspace:
    """A copy of the shared workspace, for tests that modify it."""
    folder = tmp_path / "copy"
    shutil.copytree(shared_workspace.folder, folder)
    return Workspace(folder)
