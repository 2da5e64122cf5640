"""A full disk during training: a clear error, and saved checkpoints stay intact."""

import errno
import os
import shutil
import subprocess
import sys

import pytest
from tests.journeys.workspace import Workspace, weights

from regard.core.files import find_damage

FULL = "disk: no space left"


def test_full_disk_during_a_checkpoint_keeps_earlier_ones(
    workspace: Workspace, shared_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = workspace.folder / "runs/tiny/checkpoints"
    fsync = os.fsync

    def full_at_step_10(descriptor: int) -> None:
        if list(checkpoints.glob(".step-000010.*")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    workspace.recipe()
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full_at_step_10)
        result = workspace.invoke("train", "tiny.toml")
    assert result.exit_code == 2
    assert FULL in result.error
    assert "--resume" in result.error
    assert [path.name for path in checkpoints.iterdir()] == ["step-000005"]
    assert find_damage(checkpoints / "step-000005") is None

    workspace.run("train", "tiny.toml", "--resume")
    assert weights(workspace.folder / "runs/tiny") == weights(shared_workspace.folder / "runs/tiny")


TRAIN_ON_SMALL_TMPFS = """
mkdir runs && mount -t tmpfs -o size=128k tmpfs runs || exit 99
"$0" -m regard train tiny.toml
code=$?
cp -r runs saved
exit $code
"""


def can_mount() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(command, capture_output=True).returncode
    )


@pytest.mark.long
def test_full_tmpfs_keeps_earlier_checkpoints(
    workspace: Workspace, shared_workspace: Workspace
) -> None:
    """A real full disk: writers such as safetensors hide the system's error code."""
    if not can_mount():
        pytest.skip("tmpfs cannot be mounted here")
    workspace.recipe()
    completed = subprocess.run(
        ["unshare", "-rm", "bash", "-c", TRAIN_ON_SMALL_TMPFS, sys.executable],
        cwd=workspace.folder,
        env=workspace.environment,
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 2, completed.stderr
    assert FULL in completed.stderr.splitlines()[-1]
    saved = workspace.folder / "saved/tiny"
    assert [path.name for path in (saved / "checkpoints").iterdir()] == ["step-000005"]
    assert find_damage(saved / "checkpoints/step-000005") is None

    workspace.run("train", "saved/tiny", "--resume")
    assert weights(saved) == weights(shared_workspace.folder / "runs/tiny")
