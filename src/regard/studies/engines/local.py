"""Local engine: the trainings of a study in parallel, in worker processes of one thread each.

Results of a single-threaded process do not depend on how many others run, and on few cores many
small single-threaded trainings in parallel finish sooner than one after the other with all threads.
A worker takes one training after another: it imports once, and counts baselines of the same data
once. A worker that dies costs its training alone, and another takes its place.

Finished runs are skipped, and so are those that diverged, as they would again. Interrupted ones
resume from their last checkpoint, and a failed one does not stop the others. If the study's own
process is killed, the trainings that run are finished: each holds the lock of its run folder, and
the resumed study waits for them instead of writing into the same folders.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from regard.runs.locking.lock import is_locked
from regard.runs.observer import OnJob, OnStudy, StudyProgress, ignore_job, ignore_study
from regard.studies.engines.efficiency import Efficiency
from regard.studies.engines.job import Job, JobResult, ended_jobs
from regard.studies.engines.run_events import last_line, progress, trained_seconds
from regard.studies.engines.worker_process import WorkerProcess

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class RunningJob:
    job: Job
    worker: WorkerProcess
    log: Path
    seconds_before: float
    "Of its training, before this call."
    began: float


class LocalEngine:
    """Trains jobs in at most `slots` workers; recipes and logs go to the folder `recipes`."""

    def __init__(
        self,
        *,
        slots: int,
        recipes: Path,
        user_files: Sequence[Path] = (),
        on_job: OnJob = ignore_job,
        on_study: OnStudy = ignore_study,
    ) -> None:
        self.slots = slots
        self.remarks: list[str] = []
        self.workers_started = 0
        self._trained: list[JobResult] = []
        self._began = time.perf_counter()
        self._seconds_of: dict[str, float] = {}
        "By variant: what its last job took, from order to answer."
        self._recipes = recipes
        self._user_files = user_files
        self._on_job, self._on_study = on_job, on_study
        self._workers: list[WorkerProcess] = []
        self._wake = threading.Event()

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Workers end once their training has; after an error or Ctrl-C they save it and stop."""
        for worker in self._workers:
            worker.close() if problem is None else worker.request_stop()
        for worker in self._workers:
            worker.wait()
            _remove_if_empty(worker.log)

    def efficiency(self) -> Efficiency | None:
        """So far; None if nothing was trained."""
        if not self._trained:
            return None
        return Efficiency(
            slots=self.slots,
            trainings=len(self._trained),
            training_seconds=sum(result.seconds for result in self._trained),
            wall_seconds=time.perf_counter() - self._began,
        )

    def process_ids(self) -> list[int]:
        """Of the workers that live."""
        return [worker.process_id for worker in self._workers if worker.is_alive]

    def start(self, jobs: int) -> None:
        """Start workers for this many jobs: they import while the study is planned."""
        for _ in range(min(jobs, self.slots) - len(self._workers)):
            self._start_worker()

    def run_jobs(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Run the jobs that have not ended."""
        results = ended_jobs(jobs, self._on_job)
        waiting = [job for job in jobs if job.folder not in results]
        running: list[RunningJob] = []
        self._tell(results, jobs)
        while waiting or running:
            for job in self._in_order(waiting):
                if len(running) >= self.slots:
                    break
                if is_locked(job.folder):
                    self._on_job("running", job, "in another process")
                    continue
                waiting.remove(job)
                if job.is_finished:  # by the other process, meanwhile
                    results[job.folder] = JobResult(job)
                    self._on_job("finished", job, "in another process")
                    continue
                running.append(self._begin(job))
                self._on_job("started", job, "")
            self._wake.wait(POLL_SECONDS)
            self._wake.clear()
            for one in list(running):
                exit_code = one.worker.poll()
                if exit_code is None:
                    self._on_job("running", one.job, progress(one.job.folder))
                    continue
                running.remove(one)
                if exit_code and is_locked(one.job.folder):
                    waiting.append(one.job)  # another process locked it first
                    continue
                result = _result(one, exit_code)
                results[one.job.folder] = result
                self._trained.append(result)
                self._seconds_of[one.job.variant] = time.perf_counter() - one.began
                self._on_job("failed" if result.reason else "finished", one.job, result.reason)
                self._tell(results, jobs)
        return [results[job.folder] for job in jobs]

    def _tell(self, results: Sized, jobs: Sized) -> None:
        self._on_study(StudyProgress(len(results), len(jobs), self.slots))

    def _in_order(self, jobs: Sequence[Job]) -> list[Job]:
        """Seed by seed; of one seed the longest first, so that no slot waits long at the end."""
        seeds = {job.seed: number for number, job in reversed([*enumerate(jobs)])}
        return sorted(
            jobs,
            key=lambda job: (seeds[job.seed], -self._seconds_of.get(job.variant, math.inf)),
        )

    def _begin(self, job: Job) -> RunningJob:
        recipe = job.write_recipe(self._recipes)
        log = recipe.with_name(f"{job.file_name}.log")
        log.write_bytes(b"")
        worker = self._free_worker()
        seconds_before = trained_seconds(job.folder)
        worker.train(job.folder, recipe=recipe, log=log, user_files=self._user_files)
        return RunningJob(job, worker, log, seconds_before, time.perf_counter())

    def _free_worker(self) -> WorkerProcess:
        return next((one for one in self._workers if one.is_free), None) or self._start_worker()

    def _start_worker(self) -> WorkerProcess:
        for ended in [one for one in self._workers if not one.is_alive]:
            self._workers.remove(ended)
            _remove_if_empty(ended.log)
        log = self._recipes / f"worker-{self.workers_started}.log"
        worker = WorkerProcess(log, wake=self._wake)
        self.workers_started += 1
        self._workers.append(worker)
        return worker


def _remove_if_empty(log: Path) -> None:
    if log.is_file() and not log.stat().st_size:
        log.unlink()


def _result(one: RunningJob, exit_code: int) -> JobResult:
    """Finished, or why not: the last line of its log, or its exit code."""
    seconds = max(0.0, trained_seconds(one.job.folder) - one.seconds_before)
    if exit_code == 0 and one.job.is_finished:
        return JobResult(one.job, seconds=seconds)
    if exit_code < 0:
        reason = f"killed by signal {-exit_code}; run the study again to resume it"
    else:
        reason = last_line(one.log) or last_line(one.worker.log) or f"exit code {exit_code}"
    return JobResult(one.job, reason, seconds)
