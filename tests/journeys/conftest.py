"""Desks: an empty one for each test, and one with a finished run which all tests share."""

import shutil
from pathlib import Path

import pytest
from tests.journeys.workspace import Workspace, generated_text


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.write("generated.txt", generated_text())
    return made


@pytest.fixture(scope="session")
def shared_workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with the run `runs/tiny`, trained once; tests only look at it."""
    made = Workspace(tmp_path_factory.mktemp("workspace"))
    made.write("generated.txt", generated_text())
    made.recipe()
    made.run("train", "tiny.toml")
    return made


@pytest.fixture
def trained(shared_workspace: Workspace, tmp_path: Path) -> Workspace:
    """A copy of the shared workspace, for tests that change something."""
    home = tmp_path / "copy"
    shutil.copytree(shared_workspace.folder, home)
    return Workspace(home)
