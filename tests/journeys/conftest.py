"""Desks: an empty one for each test, and one with a finished run which all tests share."""

import shutil
from pathlib import Path

import pytest
from tests.journeys.desk import Desk, generated_text


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.write("generated.txt", generated_text())
    return made


@pytest.fixture(scope="session")
def shared_desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with the run `runs/tiny`, trained once; tests only look at it."""
    made = Desk(tmp_path_factory.mktemp("desk"))
    made.write("generated.txt", generated_text())
    made.recipe()
    made.done("train", "tiny.toml")
    return made


@pytest.fixture
def trained(shared_desk: Desk, tmp_path: Path) -> Desk:
    """A copy of the shared desk, for tests that change something."""
    home = tmp_path / "copy"
    shutil.copytree(shared_desk.folder, home)
    return Desk(home)
