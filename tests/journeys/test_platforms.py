"""The same commands where the system lacks what this machine has, or another process is at work."""

import json
import subprocess
import sys

from tests.journeys.workspace import Workspace

from regard.runs.lock import lock_run

WITHOUT = """
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
    command = [sys.executable, "-c", WITHOUT, "train", "tiny.toml"]
    done = subprocess.run(
        command,
        cwd=workspace.folder,
        env=workspace.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads((workspace.folder / "runs" / "tiny" / "results.json").read_text())
    assert figures["cost"]["peak_memory_bytes"] is None
    assert (workspace.folder / "runs" / "tiny" / "report.html").is_file()


def test_the_command_line_leaves_the_wait_policy_of_threads_alone(workspace: Workspace) -> None:
    """Sleeping threads make a single training slower; only trainings that share cores want them."""
    look = "import os; from regard.cli.app import main\ntry: main()\nfinally: print(os.environ)"
    command = [sys.executable, "-c", look, "--help"]
    done = subprocess.run(
        command, env=workspace.environment, capture_output=True, text=True, check=True
    )
    assert "REGARD_CACHE" in done.stdout
    assert "OMP_WAIT_POLICY" not in done.stdout


def test_a_second_training_into_a_folder_is_refused_and_the_first_loses_nothing(
    workspace: Workspace,
) -> None:
    workspace.recipe()
    with lock_run(workspace.folder / "runs" / "tiny"):
        for words in (("train", "tiny.toml"), ("train", "tiny.toml", "--resume")):
            result = workspace.invoke(*words)
            assert result.exit_code == 2
            assert "another process is training into" in result.error
            assert not (workspace.folder / "runs" / "tiny").exists()
    assert workspace.invoke("train", "tiny.toml").exit_code == 0
    assert [file.name for file in (workspace.folder / "runs").iterdir()] == ["tiny"]
