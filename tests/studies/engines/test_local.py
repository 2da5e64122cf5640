"""Trainings of a study: what another process has begun is waited for, never trained beside it."""

import threading
from pathlib import Path

from regard.runs.lock import lock_run
from regard.runs.recipe import Recipe
from regard.studies.engines.local import Job, run_jobs

RECIPE = Recipe.from_table({"name": "a", "data": {"corpus": "python-docs"}})


def finish(folder: Path) -> None:
    """What makes a run finished, and nothing else."""
    (folder / "final").mkdir(parents=True)
    (folder / "results.json").write_text("{}")


def test_what_is_finished_is_not_begun(tmp_path):
    folder = tmp_path / "a" / "seed-0"
    finish(folder)
    words = []
    [ended] = run_jobs(
        [Job("a", 0, RECIPE, folder)],
        max_parallel=1,
        recipes=tmp_path,
        on_job=lambda what, job, word: words.append((what, word)),
    )
    assert ended.reason == ""
    assert words == [("finished", "already finished")]
    assert list(tmp_path.glob("*.log")) == []


def test_a_training_that_another_process_has_begun_is_waited_for(tmp_path):
    folder = tmp_path / "a" / "seed-0"
    words = []
    # As the training does that a killed study left behind.
    locked, done = threading.Event(), threading.Event()

    def train_elsewhere() -> None:
        with lock_run(folder):
            locked.set()
            done.wait(10)
            finish(folder)

    elsewhere = threading.Thread(target=train_elsewhere)
    elsewhere.start()
    assert locked.wait(10)

    def heard(what: str, job: Job, word: str) -> None:
        words.append((what, word))
        done.set()

    [ended] = run_jobs(
        [Job("a", 0, RECIPE, folder)], max_parallel=1, recipes=tmp_path, on_job=heard
    )
    elsewhere.join()
    assert ended.reason == ""
    assert words[0] == ("running", "in another process")
    assert words[-1] == ("finished", "in another process")
    assert not (tmp_path / "a-seed0.toml").exists(), "it was never begun here"


def test_a_training_that_cannot_be_says_why_and_the_others_go_on(tmp_path):
    good = tmp_path / "a" / "seed-1"
    finish(good)
    bad = tmp_path / "a" / "seed-0"
    bad.mkdir()
    jobs = [Job("a", 0, RECIPE, bad), Job("a", 1, RECIPE, good)]
    broken, whole = run_jobs(jobs, max_parallel=1, recipes=tmp_path)
    assert "is not a run folder: it has no recipe.toml" in broken.reason
    assert whole.reason == ""


def test_trainings_that_share_cores_let_waiting_threads_sleep(tmp_path, monkeypatch):
    seen = []

    class Process:
        returncode = 0

        def __init__(self, command, *, env, **_):
            seen.append(env)
            finish(tmp_path / "a" / "seed-0")

        def poll(self):
            return 0

    monkeypatch.setattr("regard.studies.engines.local.subprocess.Popen", Process)
    run_jobs([Job("a", 0, RECIPE, tmp_path / "a" / "seed-0")], max_parallel=2, recipes=tmp_path)
    assert seen[0]["OMP_WAIT_POLICY"] == "PASSIVE"


def test_a_training_that_lost_the_race_for_its_folder_is_waited_for(tmp_path, monkeypatch):
    folder, words, held = tmp_path / "a" / "seed-0", [], []

    class Loser:
        """The folder was free when it began, and another process's when it asked for it."""

        returncode = 2

        def __init__(self, command, **_):
            held.append(lock_run(folder))
            held[0].__enter__()

        def poll(self):
            return self.returncode

    def heard(what: str, job: Job, word: str) -> None:
        words.append(what)
        if what == "running":
            finish(folder)
            held.pop().__exit__(None, None, None)

    monkeypatch.setattr("regard.studies.engines.local.subprocess.Popen", Loser)
    [ended] = run_jobs(
        [Job("a", 0, RECIPE, folder)], max_parallel=1, recipes=tmp_path, on_job=heard
    )
    assert words == ["started", "running", "finished"]
    assert ended.reason == ""
