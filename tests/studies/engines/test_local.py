"""Local engine: what is run, skipped and waited for, and what its workers' answers mean."""

import threading
from pathlib import Path

import pytest

from regard.runs.locking.lock import lock_run
from regard.runs.recipe import Recipe
from regard.studies.engines.job import Job, JobResult
from regard.studies.engines.local import LocalEngine

RECIPE = Recipe.from_table({"name": "a", "data": {"corpus": "python-docs"}})
ENGINE = "regard.studies.engines.local"


def run_jobs(jobs: list[Job], folder: Path, **settings: object) -> list[JobResult]:
    with LocalEngine(**{"slots": 1, "recipes": folder, **settings}) as engine:
        return engine.run_jobs(jobs)


class FakeWorker:
    """A worker whose trainings end at once, as `answer` says."""

    is_alive = True
    started = 0

    def __init__(self, log: Path, **_: object) -> None:
        type(self).started += 1
        self.log = log
        self.is_free = True

    def train(self, folder: Path, *, log: Path, **_: object) -> None:
        self.is_free = False
        job = Job(folder.parent.name, int(folder.name.removeprefix("seed-")), RECIPE, folder)
        self.exit_code = self.answer(job, log)

    def answer(self, job: Job, log: Path) -> int:
        finish(job.folder)
        return 0

    def poll(self) -> int:
        self.is_free = True
        return self.exit_code

    def close(self) -> None:
        """There is no process."""

    request_stop = wait = close


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> type[FakeWorker]:
    kind = type("Worker", (FakeWorker,), {"started": 0})
    monkeypatch.setattr(f"{ENGINE}.WorkerProcess", kind)
    monkeypatch.setattr(f"{ENGINE}.POLL_SECONDS", 0.0)
    return kind


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
        tmp_path,
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
        tmp_path,
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

    [result] = run_jobs([Job("a", 0, RECIPE, folder)], tmp_path, on_job=on_job)
    elsewhere.join()
    assert result.reason == ""
    assert events[0] == ("running", "in another process")
    assert events[-1] == ("finished", "in another process")
    assert not (tmp_path / "a-seed0.toml").exists(), "it was never started here"


def test_a_worker_trains_one_job_after_another(tmp_path, worker):
    jobs = [Job("a", seed, RECIPE, tmp_path / "a" / f"seed-{seed}") for seed in range(5)]
    with LocalEngine(slots=2, recipes=tmp_path) as engine:
        assert [result.reason for result in engine.run_jobs(jobs)] == [""] * 5
        assert engine.efficiency().trainings == 5
    assert worker.started <= 2


def test_failed_job_has_a_reason_and_others_finish(tmp_path, worker):
    good, bad, killed = (tmp_path / "a" / f"seed-{seed}" for seed in range(3))

    def answer(self: FakeWorker, job: Job, log: Path) -> int:
        if job.folder == killed:
            return -9
        if job.folder == bad:
            log.write_text("progress\nrun: no space left\n")
            return 2
        return FakeWorker.answer(self, job, log)

    worker.answer = answer
    jobs = [Job("a", seed, RECIPE, one) for seed, one in enumerate((bad, killed, good))]
    reasons = [result.reason for result in run_jobs(jobs, tmp_path)]
    assert reasons[0] == "run: no space left"
    assert "killed by signal 9" in reasons[1]
    assert reasons[2] == ""


def test_of_one_seed_the_longest_jobs_are_first(tmp_path, worker, monkeypatch):
    clock, order = [0.0], []
    monkeypatch.setattr(f"{ENGINE}.time.perf_counter", lambda: clock[0])

    def answer(self: FakeWorker, job: Job, log: Path) -> int:
        order.append((job.variant, job.seed))
        return FakeWorker.answer(self, job, log)

    def on_job(state: str, job: Job, detail: str) -> None:
        if state == "started":
            clock[0] += {"short": 1.0, "long": 9.0, "middle": 4.0}[job.variant]

    worker.answer = answer
    jobs = [
        Job(name, seed, RECIPE, tmp_path / name / f"seed-{seed}")
        for seed in (7, 3)
        for name in ("short", "long", "middle")
    ]
    run_jobs(jobs, tmp_path, on_job=on_job)
    unknown = [("short", 7), ("long", 7), ("middle", 7)]
    assert order == [*unknown, ("long", 3), ("middle", 3), ("short", 3)]


def test_exit_code_0_without_results_is_no_success(tmp_path, worker):
    worker.answer = lambda self, job, log: 0
    [result] = run_jobs([Job("a", 0, RECIPE, tmp_path / "a" / "seed-0")], tmp_path)
    assert result.reason == "exit code 0"


def test_seconds_of_training_are_those_of_this_call(tmp_path, worker):
    folder = tmp_path / "a" / "seed-0"
    folder.mkdir(parents=True)
    step = '{"event": "step", "step": %d, "loss": 1.0, "seconds": %f}\n'
    (folder / "events.jsonl").write_text(step % (7, 20.0))

    def answer(self: FakeWorker, job: Job, log: Path) -> int:
        with (folder / "events.jsonl").open("a") as events:
            events.write(step % (9, 32.5))
        return FakeWorker.answer(self, job, log)

    worker.answer = answer
    with LocalEngine(slots=1, recipes=tmp_path) as engine:
        [result] = engine.run_jobs([Job("a", 0, RECIPE, folder)])
    assert result.seconds == engine.efficiency().training_seconds == 12.5
    assert engine.efficiency().slots == 1


def test_job_that_lost_the_race_for_the_lock_is_waited_for(tmp_path, worker):
    folder, events, locks = tmp_path / "a" / "seed-0", [], []

    def answer(self: FakeWorker, job: Job, log: Path) -> int:
        """Another process locks the folder between the check and the start."""
        locks.append(lock_run(folder, "training"))
        locks[0].__enter__()
        return 2

    def on_job(state: str, job: Job, detail: str) -> None:
        events.append(state)
        if state == "running":
            finish(folder)
            locks.pop().__exit__(None, None, None)

    worker.answer = answer
    [result] = run_jobs([Job("a", 0, RECIPE, folder)], tmp_path, on_job=on_job)
    assert events == ["started", "running", "finished"]
    assert result.reason == ""
