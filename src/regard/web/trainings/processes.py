"""Trainings as processes: each is the very command `regard train`, in a session of its own.

So audits, atomic writes and resuming are those of the command. Stopping sends the signal of Ctrl-C,
upon which a training saves a checkpoint. A training outlives the page; which process it is, another
page learns from the lock of the run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from regard.core.errors import UserError
from regard.evaluation.formatting import join_words, quantity
from regard.runs.locking.lock import find_writer
from regard.runs.recipe import Recipe
from regard.studies.engines.run_events import divergence, last_line
from regard.web.listing import Listing, NotFoundError
from regard.web.trainings.store import (
    StartedTraining,
    forget_training,
    read_trainings,
    record_training,
    save_recipe,
)

COMMAND = (sys.executable, "-m", "regard", "train")
MAX_RUNNING = 2
"Trainings at a time; each takes all cores, unless its recipe says otherwise."
STOP_SIGNAL = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT)
"What Ctrl-C sends; on Windows a process of another group gets Ctrl-Break alone."


class TrainingStatus(StrEnum):
    STARTING = "starting"
    "Its process runs, and has not begun to write to its run."
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"
    DIVERGED = "diverged"
    FAILED = "failed"
    "It ended before there was a run."


ACTIVE = (TrainingStatus.STARTING, TrainingStatus.RUNNING, TrainingStatus.STOPPING)
RESUMABLE = (TrainingStatus.STOPPED, TrainingStatus.FAILED)


class TooManyTrainingsError(UserError):
    """As many run as may at a time."""


@dataclass(frozen=True)
class ObservedTraining:
    """A training and what becomes of it."""

    training: StartedTraining
    state: TrainingStatus
    reason: str
    "Why it failed, or how it diverged."

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def can_resume(self) -> bool:
        return self.state in RESUMABLE


class Trainings:
    """Those that were started from pages over these runs."""

    def __init__(self, listing: Listing, *, home: Path, command: Sequence[str] = COMMAND) -> None:
        self._listing, self._home, self._command = listing, home, tuple(command)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        "Children of this page, by name of the training."
        self._stopping: set[str] = set()
        "Asked to stop by this page: a second signal would end them at once."
        self._lock = threading.Lock()

    def all(self) -> list[ObservedTraining]:
        """The last that was started first."""
        trainings = sorted(read_trainings(self._runs), key=lambda one: one.started, reverse=True)
        return [self._observe(one) for one in trainings]

    def get(self, id: str) -> ObservedTraining:
        found = self.find(id)
        if found is None:
            raise NotFoundError("no such training was started here", topic="page")
        return found

    def find(self, id: str) -> ObservedTraining | None:
        """None for a run that was not started from the page."""
        for training in read_trainings(self._runs):
            if training.id == id:
                return self._observe(training)
        return None

    def save(self, recipe: Recipe, toml: str) -> Path:
        with self._lock:
            return save_recipe(self._home, recipe.name, toml)

    def start(self, recipe: Recipe, toml: str) -> StartedTraining:
        """Save the recipe and train it."""
        with self._lock:
            name = recipe.name
            known = next((one for one in self.all() if one.training.name == name), None)
            if os.path.lexists(self._runs / name) or (known is not None and known.is_active):
                raise UserError(
                    f"a run {name} exists already",
                    topic="recipe",
                    hint="Give the recipe another name: a run is never written over.",
                )
            self._check_limit()
            save_recipe(self._home, name, toml)
            training = record_training(self._runs, name)
            self._spawn(training, [f"{name}.toml", "--out", self._from_home(training.run)])
            return training

    def resume(self, id: str) -> StartedTraining:
        """Go on from the last checkpoint; from its recipe, where there is no run yet."""
        with self._lock:
            found = self.get(id)
            if not found.can_resume:
                raise UserError(f"{found.training.name} is {found.state}", topic="training")
            self._check_limit()
            training = found.training
            run = self._from_home(training.run)
            resumed = [run, "--resume"]
            fresh = [f"{training.name}.toml", "--out", run]
            self._spawn(training, resumed if training.run.is_dir() else fresh)
            return training

    def stop(self, id: str) -> StartedTraining:
        """Ask it to save a checkpoint and end, as Ctrl-C does."""
        with self._lock:
            found = self.get(id)
            training = found.training
            if found.state not in (TrainingStatus.STARTING, TrainingStatus.RUNNING):
                raise UserError(f"{training.name} is {found.state}", topic="training")
            process = self._processes.get(training.name)
            if process is not None and process.poll() is None:
                process.send_signal(STOP_SIGNAL)
            else:
                _stop_writer(training)
            self._stopping.add(training.name)
            return training

    def forget(self, name: str) -> None:
        """Its run was deleted."""
        forget_training(self._runs, name)

    @property
    def _runs(self) -> Path:
        return self._listing.root

    def _from_home(self, folder: Path) -> str:
        return (self._runs.resolve() / folder.name).relative_to(self._home).as_posix()

    def _check_limit(self) -> None:
        active = [one.training.name for one in self.all() if one.is_active]
        if len(active) >= MAX_RUNNING:
            raise TooManyTrainingsError(
                f"{quantity(len(active), 'trainings')} of this page go on, {join_words(active)}: "
                f"no more than {MAX_RUNNING} run at a time",
                topic="training",
                hint="Wait for one to end, or stop it.",
            )

    def _spawn(self, training: StartedTraining, arguments: Sequence[str]) -> None:
        self._stopping.discard(training.name)
        with training.output_file.open("ab") as output:
            self._processes[training.name] = subprocess.Popen(
                [*self._command, *arguments],
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C ends the page, and not what it started.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )

    def _observe(self, training: StartedTraining) -> ObservedTraining:
        process = self._processes.get(training.name)
        is_ours = process is not None and process.poll() is None
        run = training.run
        if is_ours or find_writer(run) is not None:
            begun = (run / "recipe.toml").is_file()
            state = TrainingStatus.RUNNING if begun else TrainingStatus.STARTING
            if training.name in self._stopping:
                state = TrainingStatus.STOPPING
            return ObservedTraining(training, state, "")
        if (run / "results.json").is_file():
            return ObservedTraining(training, TrainingStatus.FINISHED, "")
        if reason := divergence(run):
            return ObservedTraining(training, TrainingStatus.DIVERGED, reason)
        reason = last_line(training.output_file)
        if run.is_dir():
            return ObservedTraining(training, TrainingStatus.STOPPED, "")
        return ObservedTraining(training, TrainingStatus.FAILED, reason or "it has not begun")


def _stop_writer(training: StartedTraining) -> None:
    """Of a training that another page started: its process is the one that holds the lock."""
    writer = find_writer(training.run)
    if writer is None or writer.purpose != "training":
        raise UserError(
            f"{training.name} is only starting, or has just ended",
            topic="training",
            hint="Try it again in a moment.",
        )
    with suppress(ProcessLookupError):
        os.kill(writer.pid, STOP_SIGNAL)
