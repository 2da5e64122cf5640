"""Real workers: trainings in one process have the bits of processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.workspace import TINY, generated_text, weights, with_settings

from regard import api
from regard.runs.locking.lock import is_locked
from regard.runs.recipe import Recipe
from regard.studies.engines.job import Job
from regard.studies.engines.local import LocalEngine
from regard.training.checkpoint import latest_intact_checkpoint

OWN_KIND = """
from regard.attention.kinds import AttentionKind, kind
from regard.attention.kinds.dot import DotProduct

calls = []


@kind("counting", cost="n² · d")
class Counting(AttentionKind):
    def build(self, shape):
        calls.append(self)
        return CountingScore(len(calls))


class CountingScore(DotProduct):
    def __init__(self, calls):
        super().__init__()
        self.factor = 1 + calls / 10

    def scores(self, q, k):
        return self.factor * super().scores(q, k)

    def fast(self, inputs):
        return None
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "generated.txt").write_text(generated_text())
    (tmp_path / "counting.py").write_text(OWN_KIND)
    (tmp_path / "recipes").mkdir()
    return tmp_path


def job(folder: Path, name: str, *, seed: int = 0, **settings: Any) -> Job:
    table = with_settings(TINY, {"train__seed": seed, "model__layers": 2, **settings})
    return Job(name, seed, Recipe.from_table(table), folder / "runs" / name / f"seed-{seed}")


def test_a_worker_s_trainings_have_the_bits_of_processes_of_their_own(here: Path) -> None:
    api.load_parts("counting.py")
    jobs = [
        job(here, "dot", seed=0),
        job(here, "fails", train__lr=1e30),
        job(here, "counting", seed=1, model__attention="counting"),
        job(here, "again", seed=1, model__attention="counting"),
        job(here, "dot-again", seed=0),
    ]
    files = [here / "counting.py"]
    with LocalEngine(slots=1, recipes=here / "recipes", user_files=files) as engine:
        results = engine.run_jobs(jobs)
        assert engine.workers_started == 1
    reasons = [result.reason for result in results]
    assert [bool(reason) for reason in reasons] == [False, True, False, False, False]
    assert "the loss is not finite" in reasons[1]
    logs = [(here / "recipes" / f"{one.file_name}.log").read_text() for one in jobs]
    for one, log in zip(jobs, logs, strict=True):
        assert [other.variant for other in jobs if f"runs/{other.variant}/" in log] in (
            [one.variant],
            [],  # it failed
        )
    alone = subprocess.run(
        [
            *(sys.executable, "-m", "regard", "train", "recipes/counting-seed1.toml"),
            *("--with", "counting.py", "--out", "alone"),
        ],
        capture_output=True,
        check=False,
    )
    assert alone.returncode == 0, alone.stderr
    assert {weights(jobs[2].folder), weights(jobs[3].folder)} == {weights(here / "alone")}
    assert weights(jobs[0].folder) == weights(jobs[4].folder)
    assert not (jobs[0].folder / "report.html").exists(), "a page is written when it is asked for"


def test_a_killed_worker_costs_its_training_and_ctrl_c_saves_that_of_another(here: Path) -> None:
    long = {"train__max_steps": 5000, "train__checkpoint_every": 0, "train__evaluate_every": 0}
    killed, stopped = job(here, "killed", **long), job(here, "stopped", **long)
    reasons = []

    def on_job(state: str, one: Any, detail: str) -> None:
        if state == "failed":
            reasons.append(detail)
        if not detail.startswith("step"):
            return
        if one is stopped:
            raise KeyboardInterrupt
        [process] = engine.process_ids()
        os.kill(process, getattr(signal, "SIGKILL", signal.SIGTERM))

    engine = LocalEngine(slots=1, recipes=here / "recipes", on_job=on_job)
    with pytest.raises(KeyboardInterrupt), engine:
        engine.run_jobs([killed, stopped])
    assert engine.workers_started == 2
    assert len(reasons) == 1
    if hasattr(signal, "SIGKILL"):
        assert "killed by signal 9" in reasons[0]
    assert latest_intact_checkpoint(killed.folder / "checkpoints")[0] is None
    assert latest_intact_checkpoint(stopped.folder / "checkpoints")[0] is not None
    assert not is_locked(stopped.folder)
