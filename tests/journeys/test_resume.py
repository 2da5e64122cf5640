"""A training that is stopped, in whatever way, ends in the same bits as one that was not."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.workspace import Workspace, file_digests, flip_byte, generated_text, weights

LONGER = {"train__max_steps": 120, "train__checkpoint_every": 3, "train__evaluate_every": 60}
"Steps enough to be stopped among; dropout is on, so random states count too."
RUN = "runs/tiny"


@pytest.fixture(scope="session")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of the longer run when nobody stops it."""
    workspace = Workspace(tmp_path_factory.mktemp("unbroken"))
    workspace.write("generated.txt", generated_text())
    workspace.recipe(**LONGER)
    workspace.run("train", "tiny.toml")
    return weights(workspace.folder / RUN)


def events(run: Path) -> list[dict[str, Any]]:
    """What events.jsonl tells so far; the line that is just being written is left out."""
    file = run / "events.jsonl"
    whole = file.read_text().rpartition("\n")[0] if file.is_file() else ""
    return [json.loads(line) for line in whole.splitlines()]


def send_once_saved(
    process: subprocess.Popen[str], run: Path, *, step: int, stop: signal.Signals, later: float = 0
) -> tuple[int, str]:
    """Send a signal as soon as a checkpoint at `step` or later is told of."""
    deadline = time.monotonic() + 60
    while max((e["step"] for e in events(run) if e["event"] == "checkpoint"), default=0) < step:
        assert process.poll() is None, f"it ended before step {step}: {process.communicate()[1]}"
        assert time.monotonic() < deadline, "no checkpoint within a minute"
        time.sleep(0.005)
    time.sleep(later)
    process.send_signal(stop)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def test_a_finished_run_leaves_nothing_to_do(trained: Workspace) -> None:
    before = weights(trained.folder / RUN), events(trained.folder / RUN)
    result = trained.invoke("train", "tiny.toml", "--resume")
    assert result.exit_code == 0
    assert "runs/tiny is finished: nothing to do" in result.stderr
    assert (weights(trained.folder / RUN), events(trained.folder / RUN)) == before


def test_ctrl_c_saves_and_says_how_to_go_on(workspace: Workspace, unbroken: str) -> None:
    workspace.recipe(**LONGER)
    with workspace.spawn("train", "tiny.toml") as process:
        code, err = send_once_saved(process, workspace.folder / RUN, step=6, stop=signal.SIGINT)
    assert code == 130
    assert "saved at step" in err
    assert "regard train runs/tiny --resume" in err
    assert "Traceback" not in err
    assert not (workspace.folder / RUN / "final").exists()

    result = workspace.invoke("train", RUN, "--resume")
    assert result.exit_code == 0
    assert "resuming at step" in result.stderr
    assert weights(workspace.folder / RUN) == unbroken


def test_ctrl_c_before_there_is_a_run_says_so(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    workspace.recipe()
    monkeypatch.setattr("regard.runs.experiment.prepare", pressed)
    result = workspace.invoke("train", "tiny.toml")
    assert result.exit_code == 130
    assert "Go on with: the same command" in result.error
    assert not (workspace.folder / "runs").exists()


def test_killed_twice_and_resumed(workspace: Workspace, unbroken: str) -> None:
    run = workspace.folder / RUN
    workspace.recipe(**LONGER)
    for step, resume in ((6, ()), (30, ("--resume",))):
        with workspace.spawn("train", "tiny.toml", *resume) as process:
            code, _ = send_once_saved(process, run, step=step, stop=signal.SIGKILL)
        assert code == -signal.SIGKILL
    workspace.run("train", "tiny.toml", "--resume")
    assert weights(run) == unbroken
    saved = [event["step"] for event in events(run) if event["event"] == "checkpoint"]
    assert saved == list(range(3, 121, 3)), "no step is told twice, none is left out"


@pytest.mark.long
def test_killed_ten_times_at_random_moments(workspace: Workspace, unbroken: str) -> None:
    drawn = random.Random(0)
    workspace.recipe(**LONGER)
    for step in sorted(drawn.sample(range(3, 100), 10)):
        with workspace.spawn("train", "tiny.toml", "--resume") as process:
            code, _ = send_once_saved(
                process,
                workspace.folder / RUN,
                step=step,
                stop=signal.SIGKILL,
                later=drawn.uniform(0, 0.02),  # into a step, or into the next checkpoint's writing
            )
        assert code == -signal.SIGKILL
    workspace.run("train", "tiny.toml", "--resume")
    assert weights(workspace.folder / RUN) == unbroken


def test_what_a_kill_left_half_written_is_cleared(workspace: Workspace) -> None:
    run = workspace.folder / RUN
    workspace.recipe(train__max_steps=5)
    workspace.run("train", "tiny.toml")
    unfinish(run)
    shutil.rmtree(run / "checkpoints/step-000005")
    workspace.write(f"{RUN}/checkpoints/.step-000005.kil1ed/model.safetensors", b"half")
    workspace.run("train", RUN, "--resume")
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-000005"]


def unfinish(run: Path) -> None:
    """The run as it was after its last checkpoint and before its end."""
    shutil.rmtree(run / "final")
    (run / "results.json").unlink()


def test_a_damaged_checkpoint_is_passed_over_and_said(
    trained: Workspace, shared_workspace: Workspace
) -> None:
    run = trained.folder / RUN
    unfinish(run)
    flip_byte(run / "checkpoints/step-000020/optimizer.safetensors")
    result = trained.invoke("train", RUN, "--resume")
    assert result.exit_code == 0
    assert "step-000020/optimizer.safetensors does not match its manifest" in result.stderr
    assert "passed over" in result.stderr
    assert "resuming at step 15" in result.stderr
    assert weights(run) == weights(shared_workspace.folder / RUN)


def test_a_checkpoint_with_a_file_missing_is_passed_over(
    trained: Workspace, shared_workspace: Workspace
) -> None:
    run = trained.folder / RUN
    unfinish(run)
    (run / "checkpoints/step-000020/state.json").unlink()
    result = trained.invoke("train", RUN, "--resume")
    assert result.exit_code == 0
    assert "step-000020/state.json is missing; passed over" in result.stderr
    assert weights(run) == weights(shared_workspace.folder / RUN)


def test_no_whole_checkpoint_is_an_error_and_nothing_is_lost(trained: Workspace) -> None:
    run = trained.folder / RUN
    unfinish(run)
    shutil.rmtree(run / "checkpoints/step-000015")
    flip_byte(run / "checkpoints/step-000020/model.safetensors")
    before = file_digests(run)
    result = trained.invoke("train", RUN, "--resume")
    assert result.exit_code == 2
    assert "no checkpoint of runs/tiny is whole" in result.error
    assert "step-000020/model.safetensors" in result.error
    assert "--out" in result.error
    assert file_digests(run) == before


@pytest.mark.parametrize("verb", ["generate", "evaluate"])
def test_a_damaged_final_model_says_what_is_whole(trained: Workspace, verb: str) -> None:
    flip_byte(trained.folder / RUN / "final/model.safetensors")
    result = trained.invoke(verb, RUN)
    assert result.exit_code == 2
    assert "runs/tiny/final/model.safetensors does not match its manifest" in result.error
    assert "Step 20 is whole: use runs/tiny/checkpoints/step-000020" in result.error
    assert trained.invoke("generate", "runs/tiny/checkpoints/step-000020").exit_code == 0


def test_a_damaged_final_model_is_made_anew_as_the_error_says(
    trained: Workspace, shared_workspace: Workspace
) -> None:
    run = trained.folder / RUN
    flip_byte(run / "final/model.safetensors")
    assert "delete runs/tiny/final" in trained.invoke("generate", RUN).error
    shutil.rmtree(run / "final")
    trained.run("train", RUN, "--resume")
    assert weights(run) == weights(shared_workspace.folder / RUN)
