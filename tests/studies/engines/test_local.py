"""Local engine: finished runs are skipped, runs locked by another process are waited for."""

import threading
from pathlib import Path

from regard.runs.lock import lock_run
from regard.runs.recipe import Recipe
from regard.studies.engines.local import Job, run_jobs

RECIPE = Recipe.from_table({"name": "a", "data": {"corpus": "python-docs"}})


def finish(folder: Path) -> None:
    """The minimal files of a finished run."""
    (folder / "final").mkdir(parents=True)
    (folder / "results.json").write_text("{}")


def test_finished_run_is_not_started(tmp_path):
    folder = tmp_path / "a" / "seed-0"
    finish(folder)
    events = []
    [result] = run_jobs(
        [Job("a", 0, RECIPE, folder)],
        max_parallel=1,
        recipes=tmp_path,
        on_job=lambda state, job, detail: events.append((state, detail)),
    )
    assert result.reason == ""
    assert events == [("finished", "already finished")]
    assert list(tmp_path.glob("*.log")) == []


def test_run_that_diverged_is_not_trained_again(tmp_path):
    folder = tmp_path / "a" / "seed-0"
    folder.mkdir(parents=True)
    events = ['{"event": "step", "step": 7}', '{"event": "divergence", "step": 8, "text": "inf"}']
    (folder / "events.jsonl").write_text("\n".join(events) + "\n")
    states = []
    [result] = run_jobs(
        [Job("a", 0, RECIPE, folder)],
        max_parallel=1,
        recipes=tmp_path,
        on_job=lambda state, job, detail: states.append(state),
    )
    assert str(folder) in result.reason
    assert states == ["failed"]
    assert list(tmp_path.glob("*.log")) == []


def test_run_locked_by_another_process_is_waited_for(tmp_path):
    folder = tmp_path / "a" / "seed-0"
    events = []
    # Like a training that survived its killed study.
    locked, done = threading.Event(), threading.Event()

    def train_elsewhere() -> None:
        with lock_run(folder, "training"):
            locked.set()
            done.wait(10)
            finish(folder)

    elsewhere = threading.Thread(target=train_elsewhere)
    elsewhere.start()
    assert locked.wait(10)

    def on_job(state: str, job: Job, detail: str) -> None:
        events.append((state, detail))
        done.set()

    [result] = run_jobs(
        [Job("a", 0, RECIPE, folder)], max_parallel=1, recipes=tmp_path, on_job=on_job
    )
    elsewhere.join()
    assert result.reason == ""
    assert events[0] == ("running", "in another process")
    assert events[-1] == ("finished", "in another process")
    assert not (tmp_path / "a-seed0.toml").exists(), "it was never started here"


def test_failed_job_has_a_reason_and_others_finish(tmp_path):
    good = tmp_path / "a" / "seed-1"
    finish(good)
    bad = tmp_path / "a" / "seed-0"
    bad.mkdir()
    jobs = [Job("a", 0, RECIPE, bad), Job("a", 1, RECIPE, good)]
    failed, finished = run_jobs(jobs, max_parallel=1, recipes=tmp_path)
    assert "is not a run folder" in failed.reason
    assert finished.reason == ""


def test_waiting_threads_of_parallel_trainings_sleep(tmp_path, monkeypatch):
    environments = []

    class Process:
        returncode = 0

        def __init__(self, command, *, env, **_):
            environments.append(env)
            finish(tmp_path / "a" / "seed-0")

        def poll(self):
            return 0

    monkeypatch.setattr("regard.studies.engines.local.subprocess.Popen", Process)
    run_jobs([Job("a", 0, RECIPE, tmp_path / "a" / "seed-0")], max_parallel=2, recipes=tmp_path)
    assert environments[0]["OMP_WAIT_POLICY"] == "PASSIVE"


def test_job_that_lost_the_race_for_the_lock_is_waited_for(tmp_path, monkeypatch):
    folder, events, locks = tmp_path / "a" / "seed-0", [], []

    class Loser:
        """Another process locks the folder between the check and the start."""

        returncode = 2

        def __init__(self, command, **_):
            locks.append(lock_run(folder, "training"))
            locks[0].__enter__()

        def poll(self):
            return self.returncode

    def on_job(state: str, job: Job, detail: str) -> None:
        events.append(state)
        if state == "running":
            finish(folder)
            locks.pop().__exit__(None, None, None)

    monkeypatch.setattr("regard.studies.engines.local.subprocess.Popen", Loser)
    [result] = run_jobs(
        [Job("a", 0, RECIPE, folder)], max_parallel=1, recipes=tmp_path, on_job=on_job
    )
    assert events == ["started", "running", "finished"]
    assert result.reason == ""
