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
from tests.journeys.desk import Desk, everything_in, flip_a_byte, generated_text, weights

LONGER = {"train__max_steps": 120, "train__checkpoint_every": 3, "train__evaluate_every": 60}
"Steps enough to be stopped among; dropout is on, so random states count too."
RUN = "runs/tiny"


@pytest.fixture(scope="session")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of the longer run when nobody stops it."""
    desk = Desk(tmp_path_factory.mktemp("unbroken"))
    desk.write("generated.txt", generated_text())
    desk.recipe(**LONGER)
    desk.done("train", "tiny.toml")
    return weights(desk.folder / RUN)


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


def test_a_finished_run_leaves_nothing_to_do(trained: Desk) -> None:
    before = weights(trained.folder / RUN), events(trained.folder / RUN)
    outcome = trained.regard("train", "tiny.toml", "--resume")
    assert outcome.code == 0
    assert "runs/tiny is finished: nothing to do" in outcome.err
    assert (weights(trained.folder / RUN), events(trained.folder / RUN)) == before


def test_ctrl_c_saves_and_says_how_to_go_on(desk: Desk, unbroken: str) -> None:
    desk.recipe(**LONGER)
    with desk.spawn("train", "tiny.toml") as process:
        code, err = send_once_saved(process, desk.folder / RUN, step=6, stop=signal.SIGINT)
    assert code == 130
    assert "saved at step" in err
    assert "regard train runs/tiny --resume" in err
    assert "Traceback" not in err
    assert not (desk.folder / RUN / "final").exists()

    outcome = desk.regard("train", RUN, "--resume")
    assert outcome.code == 0
    assert "resuming at step" in outcome.err
    assert weights(desk.folder / RUN) == unbroken


def test_ctrl_c_before_there_is_a_run_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    desk.recipe()
    monkeypatch.setattr("regard.runs.experiment.prepare", pressed)
    outcome = desk.regard("train", "tiny.toml")
    assert outcome.code == 130
    assert "Go on with: the same command" in outcome.complaint
    assert not (desk.folder / "runs").exists()


def test_killed_twice_and_resumed(desk: Desk, unbroken: str) -> None:
    run = desk.folder / RUN
    desk.recipe(**LONGER)
    for step, resume in ((6, ()), (30, ("--resume",))):
        with desk.spawn("train", "tiny.toml", *resume) as process:
            code, _ = send_once_saved(process, run, step=step, stop=signal.SIGKILL)
        assert code == -signal.SIGKILL
    desk.done("train", "tiny.toml", "--resume")
    assert weights(run) == unbroken
    saved = [event["step"] for event in events(run) if event["event"] == "checkpoint"]
    assert saved == list(range(3, 121, 3)), "no step is told twice, none is left out"


@pytest.mark.long
def test_killed_ten_times_at_random_moments(desk: Desk, unbroken: str) -> None:
    drawn = random.Random(0)
    desk.recipe(**LONGER)
    for step in sorted(drawn.sample(range(3, 100), 10)):
        with desk.spawn("train", "tiny.toml", "--resume") as process:
            code, _ = send_once_saved(
                process,
                desk.folder / RUN,
                step=step,
                stop=signal.SIGKILL,
                later=drawn.uniform(0, 0.02),  # into a step, or into the next checkpoint's writing
            )
        assert code == -signal.SIGKILL
    desk.done("train", "tiny.toml", "--resume")
    assert weights(desk.folder / RUN) == unbroken


def test_what_a_kill_left_half_written_is_cleared(desk: Desk) -> None:
    run = desk.folder / RUN
    desk.recipe(train__max_steps=5)
    desk.done("train", "tiny.toml")
    unfinish(run)
    shutil.rmtree(run / "checkpoints/step-000005")
    desk.write(f"{RUN}/checkpoints/.step-000005.kil1ed/model.safetensors", b"half")
    desk.done("train", RUN, "--resume")
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-000005"]


def unfinish(run: Path) -> None:
    """The run as it was after its last checkpoint and before its end."""
    shutil.rmtree(run / "final")
    (run / "figures.json").unlink()


def test_a_damaged_checkpoint_is_passed_over_and_said(trained: Desk, shared_desk: Desk) -> None:
    run = trained.folder / RUN
    unfinish(run)
    flip_a_byte(run / "checkpoints/step-000020/optimizer.safetensors")
    outcome = trained.regard("train", RUN, "--resume")
    assert outcome.code == 0
    assert "step-000020/optimizer.safetensors does not match its manifest" in outcome.err
    assert "passed over" in outcome.err
    assert "resuming at step 15" in outcome.err
    assert weights(run) == weights(shared_desk.folder / RUN)


def test_a_checkpoint_with_a_file_missing_is_passed_over(trained: Desk, shared_desk: Desk) -> None:
    run = trained.folder / RUN
    unfinish(run)
    (run / "checkpoints/step-000020/state.json").unlink()
    outcome = trained.regard("train", RUN, "--resume")
    assert outcome.code == 0
    assert "step-000020/state.json is missing; passed over" in outcome.err
    assert weights(run) == weights(shared_desk.folder / RUN)


def test_no_whole_checkpoint_is_an_error_and_nothing_is_lost(trained: Desk) -> None:
    run = trained.folder / RUN
    unfinish(run)
    shutil.rmtree(run / "checkpoints/step-000015")
    flip_a_byte(run / "checkpoints/step-000020/model.safetensors")
    before = everything_in(run)
    outcome = trained.regard("train", RUN, "--resume")
    assert outcome.code == 2
    assert "no checkpoint of runs/tiny is whole" in outcome.complaint
    assert "step-000020/model.safetensors" in outcome.complaint
    assert "--out" in outcome.complaint
    assert everything_in(run) == before


@pytest.mark.parametrize("verb", ["generate", "evaluate"])
def test_a_damaged_final_model_says_what_is_whole(trained: Desk, verb: str) -> None:
    flip_a_byte(trained.folder / RUN / "final/model.safetensors")
    outcome = trained.regard(verb, RUN)
    assert outcome.code == 2
    assert "runs/tiny/final/model.safetensors does not match its manifest" in outcome.complaint
    assert "Step 20 is whole: use runs/tiny/checkpoints/step-000020" in outcome.complaint
    assert trained.regard("generate", "runs/tiny/checkpoints/step-000020").code == 0


def test_a_damaged_final_model_is_made_anew_as_the_error_says(
    trained: Desk, shared_desk: Desk
) -> None:
    run = trained.folder / RUN
    flip_a_byte(run / "final/model.safetensors")
    assert "delete runs/tiny/final" in trained.regard("generate", RUN).complaint
    shutil.rmtree(run / "final")
    trained.done("train", RUN, "--resume")
    assert weights(run) == weights(shared_desk.folder / RUN)
