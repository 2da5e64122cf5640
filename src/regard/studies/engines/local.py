"""Local engine: the trainings of a study in parallel, one single-threaded process each.

Results of a single-threaded process do not depend on how many others run, and on few cores many
small single-threaded trainings in parallel finish sooner than one after the other with all threads.
Finished runs are skipped, and so are those that diverged, as they would again. Interrupted ones
resume from their last checkpoint, and a failed one does not stop the others. If the study's own
process is killed, its trainings continue: each holds the lock of its run folder, and the resumed
study waits for them instead of writing into the same folders.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from regard.core.files import write_text
from regard.runs.lock import is_locked
from regard.runs.observer import OnJob, ignore_job
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.training.events import parse_events

POLL_SECONDS = 0.1
TAIL_BYTES = 4096


@dataclass(frozen=True)
class Job:
    """One training of a study."""

    variant: str
    seed: int
    recipe: Recipe
    folder: Path
    trial: str = ""
    "The tuned values, such as lr=0.001; empty without tuning."

    @property
    def title(self) -> str:
        return f"{self.variant} · seed {self.seed}" + (f" · {self.trial}" if self.trial else "")


@dataclass(frozen=True)
class JobResult:
    """The result of a job: finished, or the reason why not."""

    job: Job
    reason: str = ""


@dataclass(frozen=True)
class RunningJob:
    job: Job
    process: subprocess.Popen[bytes]
    log: IO[bytes]


def run_jobs(
    jobs: Sequence[Job],
    *,
    max_parallel: int,
    recipes: Path,
    user_files: Sequence[Path] = (),
    on_job: OnJob = ignore_job,
) -> list[JobResult]:
    """Run the jobs that have not ended; their recipes and logs go to the folder `recipes`."""
    results = {job.folder: JobResult(job) for job in jobs if Run(job.folder).is_finished}
    for result in results.values():
        on_job("finished", result.job, "already finished")
    for job in jobs:
        if job.folder not in results and (reason := _divergence(job)):
            results[job.folder] = JobResult(job, reason)
            on_job("failed", job, reason)
    waiting = [job for job in jobs if job.folder not in results]
    running: list[RunningJob] = []
    try:
        while waiting or running:
            for job in list(waiting):
                if len(running) >= max_parallel:
                    break
                if is_locked(job.folder):
                    on_job("running", job, "in another process")
                    continue
                waiting.remove(job)
                if Run(job.folder).is_finished:  # by the other process, meanwhile
                    results[job.folder] = JobResult(job)
                    on_job("finished", job, "in another process")
                    continue
                running.append(_start(job, recipes, user_files))
                on_job("started", job, "")
            time.sleep(POLL_SECONDS)
            for one in list(running):
                if one.process.poll() is None:
                    on_job("running", one.job, _progress(one.job))
                    continue
                running.remove(one)
                one.log.close()
                if one.process.returncode and is_locked(one.job.folder):
                    waiting.append(one.job)  # another process locked it first
                    continue
                result = JobResult(one.job, _failure(one))
                results[one.job.folder] = result
                on_job("failed" if result.reason else "finished", one.job, result.reason)
    except BaseException:  # Ctrl-C too: leave no orphaned trainings
        _stop(running)
        raise
    return [results[job.folder] for job in jobs]


def _file_name(job: Job) -> str:
    return "-".join((job.variant, f"seed{job.seed}", *([job.trial] if job.trial else [])))


def _start(job: Job, recipes: Path, user_files: Sequence[Path]) -> RunningJob:
    recipe = recipes / f"{_file_name(job)}.toml"
    write_text(recipe, job.recipe.to_toml())
    command = [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(job.folder)]
    command += ["--resume", *(word for file in user_files for word in ("--with", str(file)))]
    # One thread each, and waiting threads sleep: trainings share the cores. A new session: Ctrl-C
    # reaches only the study, which then interrupts its jobs.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    log = (recipes / f"{_file_name(job)}.log").open("wb")
    process = subprocess.Popen(
        command,
        stdout=log,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    return RunningJob(job, process, log)


def _stop(running: Sequence[RunningJob]) -> None:
    """Interrupt each job as Ctrl-C would: it saves a checkpoint and exits."""
    for one in running:
        if one.process.poll() is None:
            if os.name == "posix":
                one.process.send_signal(signal.SIGINT)
            else:  # Windows cannot interrupt a single process
                one.process.terminate()
    for one in running:
        try:
            one.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            one.process.kill()
        one.log.close()


def _failure(one: RunningJob) -> str:
    """Why a job is not finished: the last line of its log, or its exit code; empty if it is."""
    if one.process.returncode == 0 and Run(one.job.folder).is_finished:
        return ""
    if one.process.returncode < 0:
        return f"killed by signal {-one.process.returncode}; run the study again to resume it"
    tail = Path(one.log.name).read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()
    return tail.rpartition("\n")[2].strip() or f"exit code {one.process.returncode}"


def _divergence(job: Job) -> str:
    """How the training of a job diverged, if that is how it ended."""
    last = next(_last_events(job), {})
    if last.get("event") != "divergence":
        return ""
    return f"{last.get('text')}; to train it again, delete {job.folder}"


def _progress(job: Job) -> str:
    """`step 120`, from the end of the run's events."""
    steps = (event for event in _last_events(job) if event.get("event") == "step")
    return next((f"step {event['step']}" for event in steps), "")


def _last_events(job: Job) -> Iterator[dict[str, Any]]:
    """Events of a run, the last first."""
    try:
        with Run(job.folder).events_file.open("rb") as events:
            events.seek(0, os.SEEK_END)
            events.seek(max(0, events.tell() - TAIL_BYTES))
            lines = events.read().splitlines()
    except OSError:
        return iter(())
    return parse_events(reversed(lines))
