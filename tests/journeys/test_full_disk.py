"""A disk that fills up while training: the person is told, and what was saved stays whole."""

import errno
import os
import shutil
import subprocess
import sys

import pytest
from tests.journeys.workspace import Workspace, weights

from regard.core.files import find_damage

FULL = "disk: no room left"


def test_no_room_for_a_checkpoint(
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


IN_A_SMALL_ROOM = """
mkdir runs && mount -t tmpfs -o size=100k tmpfs runs || exit 99
"$0" -m regard train tiny.toml
code=$?
cp -r runs saved
exit $code
"""


def can_mount() -> bool:
    trial = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        bool(shutil.which("unshare")) and not subprocess.run(trial, capture_output=True).returncode
    )


def test_a_disk_that_is_really_full(workspace: Workspace, shared_workspace: Workspace) -> None:
    """Writers that hide the system's error, as safetensors does, are only met by a real one."""
    if not can_mount():
        pytest.skip("this system lets nobody mount a small disk")
    workspace.recipe()
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", IN_A_SMALL_ROOM, sys.executable],
        cwd=workspace.folder,
        env=workspace.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert FULL in done.stderr.splitlines()[-1]
    saved = workspace.folder / "saved/tiny"
    assert [path.name for path in (saved / "checkpoints").iterdir()] == ["step-000005"]
    assert find_damage(saved / "checkpoints/step-000005") is None

    workspace.run("train", "saved/tiny", "--resume")
    assert weights(saved) == weights(shared_workspace.folder / "runs/tiny")
