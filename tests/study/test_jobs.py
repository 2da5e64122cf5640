"""Trainings of a study: what another process has begun is waited for, never trained beside it."""

import fcntl
import threading
from pathlib import Path

from regard.recipe import Recipe
from regard.study.jobs import Job, run_jobs

RECIPE = Recipe.from_table({"name": "a", "data": {"corpus": "python-docs"}})


def finish(folder: Path) -> None:
    """What makes a run finished, and nothing else."""
    (folder / "final").mkdir(parents=True)
    (folder / "figures.json").write_text("{}")


def test_what_is_finished_is_not_begun(tmp_path):
    folder = tmp_path / "a" / "seed-0"
    finish(folder)
    words = []
    [ended] = run_jobs(
        [Job("a", 0, RECIPE, folder)],
        at_once=1,
        recipes=tmp_path,
        on_job=lambda what, job, word: words.append((what, word)),
    )
    assert ended.reason == ""
    assert words == [("finished", "was finished before")]
    assert list(tmp_path.glob("*.log")) == []


def test_a_training_that_another_process_has_begun_is_waited_for(tmp_path):
    folder = tmp_path / "a" / "seed-0"
    words = []
    with (tmp_path / "a-seed0.log").open("ab") as log:
        fcntl.flock(log, fcntl.LOCK_EX)  # as the training that a killed study left behind does

        def other(what: str, job: Job, word: str) -> None:
            words.append((what, word))
            if not folder.exists():
                finish(folder)
                threading.Timer(0.3, fcntl.flock, (log, fcntl.LOCK_UN)).start()

        [ended] = run_jobs([Job("a", 0, RECIPE, folder)], at_once=1, recipes=tmp_path, on_job=other)
    assert ended.reason == ""
    assert words[0] == ("goes", "in another process")
    assert words[-1] == ("finished", "in another process")
    assert not (tmp_path / "a-seed0.toml").exists(), "it was never begun here"


def test_a_training_that_cannot_be_says_why_and_the_others_go_on(tmp_path):
    good = tmp_path / "a" / "seed-1"
    finish(good)
    bad = tmp_path / "a" / "seed-0"
    bad.mkdir()
    jobs = [Job("a", 0, RECIPE, bad), Job("a", 1, RECIPE, good)]
    broken, whole = run_jobs(jobs, at_once=1, recipes=tmp_path)
    assert "is not a run folder: it has no recipe.toml" in broken.reason
    assert whole.reason == ""
