"""The single trainings of a study, several at a time, each in a process of its own.

A process with one thread computes the same bits however many run beside it, and on few cores many
small trainings with one thread each end sooner than one after the other with all. A run that is
finished is not run again; one that was stopped goes on from its last checkpoint; one that fails
does not keep the others from running. A study whose own process was killed leaves its trainings
behind: each holds the lock of its run folder, and the next study waits for them instead of writing
into the same folders.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from regard.core.files import write_text
from regard.runs.lock import is_locked
from regard.runs.recipe import Recipe
from regard.runs.run import Run

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
    "What a tuning trial tries, such as lr=0.001; empty for a training that is compared."

    @property
    def title(self) -> str:
        return f"{self.variant} · seed {self.seed}" + (f" · {self.trial}" if self.trial else "")


@dataclass(frozen=True)
class JobResult:
    """What became of a job; no reason means that it is finished."""

    job: Job
    reason: str = ""


@dataclass(frozen=True)
class RunningJob:
    job: Job
    process: subprocess.Popen[bytes]
    log: IO[bytes]


OnJob = Callable[[str, Job, str], None]
"(what: began, goes, finished or failed; the job; a word on it)"


def run_jobs(
    jobs: Sequence[Job],
    *,
    at_once: int,
    recipes: Path,
    own_files: Sequence[Path] = (),
    on_job: OnJob = lambda what, job, word: None,
) -> list[JobResult]:
    """Run what is not finished yet; `recipes` is where their recipes and logs are kept."""
    ended = {job.folder: JobResult(job) for job in jobs if Run(job.folder).is_finished}
    for done in ended.values():
        on_job("finished", done.job, "was finished before")
    waiting = [job for job in jobs if job.folder not in ended]
    going: list[RunningJob] = []
    try:
        while waiting or going:
            for job in list(waiting):
                if len(going) == at_once:
                    break
                if is_locked(job.folder):
                    on_job("goes", job, "in another process")
                    continue
                waiting.remove(job)
                if Run(job.folder).is_finished:  # by that other process, meanwhile
                    ended[job.folder] = JobResult(job)
                    on_job("finished", job, "in another process")
                    continue
                going.append(_begin(job, recipes, own_files))
                on_job("began", job, "")
            time.sleep(POLL_SECONDS)
            for one in list(going):
                if one.process.poll() is None:
                    on_job("goes", one.job, _progress(one.job))
                    continue
                going.remove(one)
                one.log.close()
                if one.process.returncode and is_locked(one.job.folder):
                    waiting.append(one.job)  # another process was first to lock it
                    continue
                outcome = JobResult(one.job, _reason(one))
                ended[one.job.folder] = outcome
                on_job("failed" if outcome.reason else "finished", one.job, outcome.reason)
    except BaseException:  # Ctrl-C too: no training goes on that nobody waits for
        _stop(going)
        raise
    return [ended[job.folder] for job in jobs]


def _file_name(job: Job) -> str:
    return "-".join((job.variant, f"seed{job.seed}", *([job.trial] if job.trial else [])))


def _begin(job: Job, recipes: Path, own_files: Sequence[Path]) -> RunningJob:
    recipe = recipes / f"{_file_name(job)}.toml"
    write_text(recipe, job.recipe.to_toml())
    command = [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(job.folder)]
    command += ["--resume", *(word for file in own_files for word in ("--with", str(file)))]
    # One thread each, and a session of its own: Ctrl-C reaches the study, which tells its jobs.
    # Trainings share the cores: threads that wait sleep.
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


def _stop(going: Sequence[RunningJob]) -> None:
    """Ask each to save and end, as Ctrl-C would."""
    for one in going:
        if one.process.poll() is None:
            if os.name == "posix":
                one.process.send_signal(signal.SIGINT)
            else:  # Windows has no such signal for one process
                one.process.terminate()
    for one in going:
        try:
            one.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            one.process.kill()
        one.log.close()


def _reason(one: RunningJob) -> str:
    """Why a job is not finished: its last words, or how it ended."""
    if one.process.returncode == 0 and Run(one.job.folder).is_finished:
        return ""
    if one.process.returncode < 0:
        return f"killed by signal {-one.process.returncode}; run the study again to go on with it"
    words = Path(one.log.name).read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()
    return words.rpartition("\n")[2].strip() or f"exit code {one.process.returncode}"


def _progress(job: Job) -> str:
    """`step 120 of 500`, from the end of the run's events."""
    file = Run(job.folder).events_file
    for event in _last_events(file):
        if event.get("event") == "step":
            return f"step {event['step']}"
    return ""


def _last_events(file: Path) -> Iterator[dict[str, object]]:
    try:
        with file.open("rb") as events:
            events.seek(0, os.SEEK_END)
            events.seek(max(0, events.tell() - TAIL_BYTES))
            lines = events.read().splitlines()
    except OSError:
        return
    for line in reversed(lines):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
