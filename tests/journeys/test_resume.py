"""An interrupted and resumed training ends with the same bits as an uninterrupted one."""

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

LONGER = {"train__max_steps": 72, "train__checkpoint_every": 3, "train__evaluate_every": 36}
"Enough steps to be interrupted; dropout is on, so random states matter too."
RUN = "runs/tiny"


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of the longer run without interruption."""
    workspace = Workspace(tmp_path_factory.mktemp("uninterrupted"))
    workspace.write("generated.txt", generated_text())
    workspace.recipe(**LONGER)
    workspace.run("train", "tiny.toml")
    return weights(workspace.folder / RUN)


def events(run: Path) -> list[dict[str, Any]]:
    """The complete lines of events.jsonl."""
    file = run / "events.jsonl"
    complete = file.read_text().rpartition("\n")[0] if file.is_file() else ""
    return [json.loads(line) for line in complete.splitlines()]


def last_checkpoint(run: Path) -> int:
    return max((e["step"] for e in events(run) if e["event"] == "checkpoint"), default=0)


def signal_after_checkpoint(
    process: subprocess.Popen[str], run: Path, *, step: int, stop: signal.Signals, delay: float = 0
) -> tuple[int, str]:
    """Send a signal once a checkpoint at `step` or later is logged; exit code and stderr."""
    deadline = time.monotonic() + 60
    while last_checkpoint(run) < step:
        assert process.poll() is None, f"ended before step {step}: {process.communicate()[1]}"
        assert time.monotonic() < deadline, "no checkpoint within a minute"
        time.sleep(0.005)
    time.sleep(delay)
    process.send_signal(stop)
    _, stderr = process.communicate(timeout=60)
    return process.returncode, stderr


def test_resuming_a_finished_run_does_nothing(trained: Workspace) -> None:
    before = weights(trained.folder / RUN), events(trained.folder / RUN)
    result = trained.invoke("train", "tiny.toml", "--resume")
    assert result.exit_code == 0
    assert "runs/tiny is finished: nothing to do" in result.stderr
    assert (weights(trained.folder / RUN), events(trained.folder / RUN)) == before


def test_kill_then_stop_signals_then_resume_ends_with_the_same_bits(
    workspace: Workspace, uninterrupted: str
) -> None:
    run = workspace.folder / RUN
    workspace.recipe(**LONGER)
    with workspace.spawn("train", "tiny.toml") as process:
        code, _ = signal_after_checkpoint(process, run, step=6, stop=signal.SIGKILL)
    assert code == -signal.SIGKILL

    for stop in signal.SIGINT, signal.SIGTERM:
        step = last_checkpoint(run) + 6
        with workspace.spawn("train", "tiny.toml", "--resume") as process:
            code, stderr = signal_after_checkpoint(process, run, step=step, stop=stop)
        assert code == 128 + stop
        assert "saved at step" in stderr
        assert "regard train runs/tiny --resume" in stderr
        assert "Traceback" not in stderr
        assert not (run / "final").exists()

    result = workspace.invoke("train", RUN, "--resume")
    assert result.exit_code == 0
    assert "resuming at step" in result.stderr
    assert weights(run) == uninterrupted
    saved = [event["step"] for event in events(run) if event["event"] == "checkpoint"]
    requested = [step for step in saved if step % 3]
    assert sorted({*saved} - {*requested}) == list(range(3, 73, 3)), "no checkpoint is missing"
    assert len(saved) == len({*saved}), "no checkpoint is logged twice"
    assert len(requested) <= 2, "each stop saves one"


def test_ctrl_c_during_preparation_leaves_no_run(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    workspace.recipe()
    monkeypatch.setattr("regard.runs.experiment.prepare", interrupt)
    result = workspace.invoke("train", "tiny.toml")
    assert result.exit_code == 130
    assert "Resume with: the same command" in result.error
    assert not (workspace.folder / "runs").exists()


@pytest.mark.long
def test_killed_ten_times_ends_with_the_same_bits(workspace: Workspace, uninterrupted: str) -> None:
    generator = random.Random(0)
    workspace.recipe(**LONGER)
    for step in sorted(generator.sample(range(3, 60), 10)):
        with workspace.spawn("train", "tiny.toml", "--resume") as process:
            code, _ = signal_after_checkpoint(
                process,
                workspace.folder / RUN,
                step=step,
                stop=signal.SIGKILL,
                delay=generator.uniform(0, 0.02),  # during a step or the next checkpoint's write
            )
        assert code == -signal.SIGKILL
    workspace.run("train", "tiny.toml", "--resume")
    assert weights(workspace.folder / RUN) == uninterrupted


def test_partial_checkpoint_of_a_killed_run_is_removed(trained: Workspace) -> None:
    run = trained.folder / RUN
    before = sorted(path.name for path in (run / "checkpoints").iterdir())
    unfinish(run)
    shutil.rmtree(run / "checkpoints/step-000020")
    trained.write(f"{RUN}/checkpoints/.step-000020.kil1ed/model.safetensors", b"half")
    trained.run("train", RUN, "--resume")
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == before


def unfinish(run: Path) -> None:
    """The run as it was after its last checkpoint."""
    shutil.rmtree(run / "final")
    (run / "results.json").unlink()


def test_damaged_checkpoint_is_skipped_and_reported(
    trained: Workspace, shared_workspace: Workspace
) -> None:
    run = trained.folder / RUN
    unfinish(run)
    flip_byte(run / "checkpoints/step-000020/optimizer.safetensors")
    result = trained.invoke("train", RUN, "--resume")
    assert result.exit_code == 0
    assert "step-000020/optimizer.safetensors does not match its manifest" in result.stderr
    assert "skipped" in result.stderr
    assert "resuming at step 15" in result.stderr
    assert weights(run) == weights(shared_workspace.folder / RUN)


def test_incomplete_checkpoint_is_skipped(trained: Workspace, shared_workspace: Workspace) -> None:
    run = trained.folder / RUN
    unfinish(run)
    (run / "checkpoints/step-000020/state.json").unlink()
    result = trained.invoke("train", RUN, "--resume")
    assert result.exit_code == 0
    assert "step-000020/state.json is missing; skipped" in result.stderr
    assert weights(run) == weights(shared_workspace.folder / RUN)


def test_resuming_without_an_intact_checkpoint_is_refused(trained: Workspace) -> None:
    run = trained.folder / RUN
    unfinish(run)
    shutil.rmtree(run / "checkpoints/step-000015")
    flip_byte(run / "checkpoints/step-000020/model.safetensors")
    before = file_digests(run)
    result = trained.invoke("train", RUN, "--resume")
    assert result.exit_code == 2
    assert "no checkpoint of runs/tiny is intact" in result.error
    assert "step-000020/model.safetensors" in result.error
    assert "--out" in result.error
    assert file_digests(run) == before


@pytest.mark.parametrize("command", ["generate", "evaluate"])
def test_damaged_final_model_names_the_last_intact_checkpoint(
    trained: Workspace, command: str
) -> None:
    flip_byte(trained.folder / RUN / "final/model.safetensors")
    result = trained.invoke(command, RUN)
    assert result.exit_code == 2
    assert "runs/tiny/final/model.safetensors does not match its manifest" in result.error
    assert "Step 20 is intact: use runs/tiny/checkpoints/step-000020" in result.error
    assert trained.invoke("generate", "runs/tiny/checkpoints/step-000020").exit_code == 0


def test_deleted_final_model_is_restored_by_resuming(
    trained: Workspace, shared_workspace: Workspace
) -> None:
    run = trained.folder / RUN
    flip_byte(run / "final/model.safetensors")
    assert "delete runs/tiny/final" in trained.invoke("generate", RUN).error
    shutil.rmtree(run / "final")
    trained.run("train", RUN, "--resume")
    assert weights(run) == weights(shared_workspace.folder / RUN)
