"""`regard compare --engine …`: what is asked for wrongly is one sentence, and loses nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tests.journeys.workspace import Workspace, file_digests
from tests.studies.drawn_trainings import DrawnTrainings

from regard.runs.locking.lock import lock_run
from regard.studies.engines import choice


@pytest.fixture
def study(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A study whose trainings are drawn in no time."""
    trainings = DrawnTrainings()
    monkeypatch.setattr(choice, "LocalEngine", lambda **_: trainings)
    workspace.recipe("base.toml")
    write_study(workspace)
    return workspace


def write_study(workspace: Workspace, **changes: Any) -> None:
    table = {"base": "base.toml", "seeds": [0, 1], "variants": {"a": {}, "b": {"train.lr": 2e-2}}}
    workspace.write("study.toml", tomli_w.dumps(table | changes))


@pytest.fixture
def port_of_nobody() -> Iterator[int]:
    with socket.socket() as taken:  # bound, but it does not listen
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_without_ray_the_way_to_it_is_said(
    study: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for command in ("compare", "sweep"):
        write_study(study, grid={"train.lr": [1e-3, 2e-3]}, variants={})
        refused = study.invoke(command, "study.toml", "--engine", "ray")
        assert refused.exit_code == 2
        assert "--engine ray needs Ray, which is not installed" in refused.error
        assert "pip install 'regard[ray]'" in refused.error


def test_an_address_where_nobody_answers(study: Workspace, port_of_nobody: int) -> None:
    address = f"127.0.0.1:{port_of_nobody}"
    refused = study.invoke("compare", "study.toml", "--engine", "ray", "--address", address)
    assert refused.exit_code == 2
    assert f"--address {address}" in refused.error
    assert "nobody answers there" in refused.error
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--engine", "rays"], "--engine rays: no such engine — did you mean ray?"),
        (["--address", "10.0.0.1:6379"], "--address is of --engine ray"),
        (["--storage", "."], "--storage is of --engine ray"),
        (["--engine", "ray", "--address", "head"], "this is not HOST:PORT"),
        (["--engine", "ray", "--address", "head:port"], "this is not HOST:PORT"),
        (["--engine", "ray", "--storage", "nowhere"], "--storage nowhere: is no folder"),
        (["--engine", "ray", "--storage", ".", "--out", "/tmp/o"], "is not inside --storage"),
    ],
)
def test_wrong_options_are_one_sentence(study: Workspace, options: list[str], says: str) -> None:
    refused = study.invoke("compare", "study.toml", *options)
    assert refused.exit_code == 2
    assert says in refused.error
    assert not (study.folder / "runs").exists() or not list((study.folder / "runs").iterdir())


def test_two_drivers_of_one_study(study: Workspace) -> None:
    study.run("compare", "study.toml")
    before = file_digests(study.folder / "runs/study")
    with lock_run(study.folder / "runs/study", "training"):
        refused = study.invoke("compare", "study.toml", "--seeds", "0-3")
    assert refused.exit_code == 2
    assert "another process is writing to runs/study: training on" in refused.error
    assert file_digests(study.folder / "runs/study") == before


def test_a_study_file_that_changes_while_it_runs(study: Workspace) -> None:
    """The study goes on as it began; the changed one is refused, and every run stays."""
    study.run("compare", "study.toml", "--seeds", "0")
    before = file_digests(study.folder / "runs/study")
    write_study(study, variants={"a": {}, "b": {"train.lr": 3e-2}})
    refused = study.invoke("compare", "study.toml")
    assert refused.exit_code == 2
    assert "runs/study belongs to another study" in refused.error
    assert file_digests(study.folder / "runs/study") == before


def test_nothing_of_ray_is_imported_unless_it_is_asked_for(tmp_path: Path) -> None:
    code = (
        "import sys, regard.studies.compare, regard.cli.studies.compare, regard.cli.studies.worker;"
        "assert not {one for one in sys.modules if one.split('.')[0] == 'ray'}"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_node_s_module_loads_neither_torch_nor_ray() -> None:
    code = (
        "import sys, regard.studies.engines.ray.node;"
        "assert not {'torch', 'ray', 'pyarrow'} & sys.modules.keys()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
