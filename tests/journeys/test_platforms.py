"""Training without Linux-only modules, and with another process training into the folder."""

import json
import subprocess
import sys

import pytest
from tests.journeys.workspace import Workspace, generated_text

from regard.runs.locking.lock import lock_run

WITHOUT_LINUX_MODULES = """
import os, sys
del os.sched_getaffinity                     # macOS, Windows
sys.modules["resource"] = None               # Windows
sys.modules["fcntl"] = None                  # Windows
from regard.cli.app import main
sys.argv = ["regard", *sys.argv[1:]]
main()
"""


def test_training_needs_neither_affinity_nor_resource_nor_fcntl(workspace: Workspace) -> None:
    workspace.recipe(train__threads=0, train__max_steps=2)
    command = [sys.executable, "-c", WITHOUT_LINUX_MODULES, "train", "tiny.toml"]
    completed = subprocess.run(
        command,
        cwd=workspace.folder,
        # Two threads on the one core of a test process: waiting ones have to sleep.
        env={**workspace.environment, "OMP_WAIT_POLICY": "PASSIVE"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    results = json.loads((workspace.folder / "runs" / "tiny" / "results.json").read_text())
    assert results["cost"]["peak_memory_bytes"] is None
    assert (workspace.folder / "runs" / "tiny" / "report.html").is_file()


def test_command_line_does_not_set_omp_wait_policy(workspace: Workspace) -> None:
    """Passive waiting slows a single training; only trainings that share cores need it."""
    script = "import os; from regard.cli.app import main\ntry: main()\nfinally: print(os.environ)"
    command = [sys.executable, "-c", script, "--help"]
    completed = subprocess.run(
        command, env=workspace.environment, capture_output=True, text=True, check=True
    )
    assert "REGARD_CACHE" in completed.stdout
    assert "OMP_WAIT_POLICY" not in completed.stdout


@pytest.mark.long
def test_training_in_a_terminal_of_ascii(workspace: Workspace) -> None:
    workspace = Workspace(workspace.folder / "ünï")  # no ASCII in the path of the run either
    workspace.write("generated.txt", generated_text().replace("cat", "cät"))
    workspace.recipe()
    ascii_terminal = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for arguments in (("train", "tiny.toml"), ("evaluate", "runs/tiny"), ("runs",)):
        with workspace.spawn(*arguments, **ascii_terminal) as process:
            _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
    origin = json.loads((workspace.folder / "runs/tiny/origin.json").read_text("utf-8"))
    assert origin["working_directory"] == str(workspace.folder)


def test_second_training_into_a_locked_folder_is_refused(
    workspace: Workspace,
) -> None:
    workspace.recipe()
    with lock_run(workspace.folder / "runs" / "tiny", "training"):
        for flags in ((), ("--resume",)):
            result = workspace.invoke("train", "tiny.toml", *flags)
            assert result.exit_code == 2
            assert "another process is writing to" in result.error
            assert not (workspace.folder / "runs" / "tiny").exists()
    assert workspace.invoke("train", "tiny.toml").exit_code == 0
    assert [file.name for file in (workspace.folder / "runs").iterdir()] == ["tiny"]


def test_a_limit_of_addresses_is_said_in_the_run(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short of memory, MKL computes the same product by another path: bits may differ."""
    monkeypatch.setattr("regard.runs.train.address_limit", lambda: 8 << 30)
    workspace.recipe(train__max_steps=2)
    result = workspace.invoke("train", "tiny.toml")
    assert result.exit_code == 0
    assert "may address 8.0 GB" in result.stderr
    events = (workspace.folder / "runs/tiny/events.jsonl").read_text(encoding="utf-8")
    assert "last bits may differ" in events
