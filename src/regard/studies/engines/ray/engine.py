"""Ray engine: the trainings of a study on the nodes of a cluster, each one CPU core and one thread.

Ray places them; this process, the driver, writes what arrives: each checkpoint with the run as it
was then, and the finished run, whole or not at all. Where every node sees the study's folder
(`--storage`), trainings write there themselves, as local ones do.

A training whose process is gone is sent again with its last checkpoint. One that fails is tried
once more on another node, unless it diverged: a failure there too is its own. A node on which
trainings fail that end elsewhere is excluded, and so is one with another version of regard. If the
driver is killed, its trainings end, and the same command goes on from what has arrived.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from regard.core.errors import UserError
from regard.runs.locking.lock import is_locked, lock_run
from regard.runs.observer import OnJob, OnStudy, StudyProgress, ignore_job, ignore_study
from regard.studies.engines.efficiency import Efficiency
from regard.studies.engines.job import Job, JobResult, ended_jobs
from regard.studies.engines.ray.attempt import Attempt, keep_origin
from regard.studies.engines.ray.cluster import Cluster, Node, NodeError, ProcessGoneError, Stream
from regard.studies.engines.ray.folder_transfer import TransferError, encode, restore_interrupted
from regard.studies.engines.ray.needs import Needs, gpus
from regard.studies.engines.ray.node import code_version
from regard.studies.engines.ray.task_spec import TaskSpecs
from regard.studies.engines.run_events import divergence, trained_seconds

WAIT_SECONDS = 0.5
NODES_SECONDS = 2.0
"Between two looks at which nodes there are."
STOP_SECONDS = 60.0
"How long trainings may take to save a checkpoint, once asked."
MAX_TRIES = 2
"Nodes on which a training may fail."
MAX_DEATHS = 5
"Processes that may be gone under a training: it may be the one that takes all memory."
MAX_FAULTS = 2
"Trainings that fail on a node and end on another, before the node is excluded."


@dataclass
class UnfinishedJob:
    """A training that has not ended, over all its attempts."""

    job: Job
    seconds_before: float
    locks: ExitStack = field(default_factory=ExitStack)
    "Of its run folder, as long as the driver may write there."
    failed_on: dict[str, tuple[str, str]] = field(default_factory=dict)
    "By node: its address, and why."
    deaths: int = 0

    @property
    def failures(self) -> str:
        """Why it failed, on each node."""
        said = (f"node {address}: {reason}" for address, reason in self.failed_on.values())
        return "; ".join(dict.fromkeys(said))


class RayEngine:
    """Trains jobs on a cluster; recipes and logs go to the folder `recipes`."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        recipes: Path,
        user_files: Sequence[Path] = (),
        shared: bool = False,
        max_parallel: int = 0,
        on_job: OnJob = ignore_job,
        on_study: OnStudy = ignore_study,
    ) -> None:
        self.remarks: list[str] = []
        "Nodes that were excluded, and why."
        self._cluster = cluster
        self._recipes = recipes
        self._shared = shared
        self._task_specs = TaskSpecs(cluster, study=recipes.parent, user_files=user_files)
        self._max_parallel = max_parallel
        self._on_job, self._on_study = on_job, on_study
        self._needs = Needs()
        self._running: dict[Stream, Attempt] = {}
        self._unfinished: dict[Path, UnfinishedJob] = {}
        self._trained: list[JobResult] = []
        self._excluded: dict[str, str] = {}
        self._faults: dict[str, int] = {}
        self._nodes: list[Node] = []
        self._seen_at = self._first_seen_at = 0.0
        self._began = time.perf_counter()
        self._slot_seconds = 0.0

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """After an error or Ctrl-C every training saves a checkpoint, which is waited for."""
        try:
            self._cancel_those_that_wait()
            if self._running:
                self._cluster.stop_trainings()
                deadline = time.monotonic() + STOP_SECONDS
                while self._running and time.monotonic() < deadline:
                    self._receive()
        finally:
            for stream, attempt in self._running.items():
                attempt.abandon()
                self._cluster.cancel(stream)
            for unfinished in self._unfinished.values():
                unfinished.locks.close()
            self._cluster.close()

    def efficiency(self) -> Efficiency | None:
        """So far; None if nothing was trained."""
        if not self._trained:
            return None
        now = time.perf_counter()
        wall = now - self._began
        slot_seconds = self._slot_seconds + self._slots() * (now - self._seen_at)
        return Efficiency(
            slots=max(1, round(slot_seconds / (now - self._first_seen_at))),
            trainings=len(self._trained),
            training_seconds=sum(result.seconds for result in self._trained),
            wall_seconds=wall,
            nodes=len(self._usable()),
        )

    def start(self, jobs: int) -> None:
        """Nothing: Ray starts a process for each training that it places."""

    def run_jobs(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Run the jobs that have not ended."""
        results = ended_jobs(jobs, self._on_job)
        waiting = [job for job in jobs if job.folder not in results]
        while waiting or self._running:
            self._look_at_nodes(done=len(results), total=len(jobs))
            for job in list(waiting):
                if len(self._running) >= self._capacity():
                    break
                if self._is_locked_elsewhere(job):
                    self._on_job("running", job, "in another process")
                    continue
                waiting.remove(job)
                if job.is_finished:  # by the other process, meanwhile
                    results[job.folder] = JobResult(job)
                    self._on_job("finished", job, "in another process")
                    continue
                if why := self._needs.does_not_fit(job.recipe, self._usable()):
                    results[job.folder] = JobResult(job, why)
                    self._on_job("failed", job, why)
                    continue
                self._send(job)
            for attempt in [*self._take_back_stranded(), *self._receive()]:
                result = self._judge(attempt)
                if result is None:
                    waiting.insert(0, attempt.job)
                    continue
                results[attempt.job.folder] = result
                self._on_job("failed" if result.reason else "finished", attempt.job, result.reason)
                self._tell(done=len(results), total=len(jobs))
        return [results[job.folder] for job in jobs]

    def _cancel_those_that_wait(self) -> None:
        """Trainings that were sent and have no node yet."""
        for stream in [one for one, attempt in self._running.items() if not attempt.node]:
            self._cluster.cancel(stream)
            del self._running[stream]

    def _take_back_stranded(self) -> list[Attempt]:
        """Trainings that wait for another node than those where they failed, and there is none."""
        stranded = []
        usable = {node.id for node in self._usable()}
        for stream, attempt in list(self._running.items()):
            failed_on = self._unfinished[attempt.job.folder].failed_on
            if not attempt.node and failed_on and usable and usable <= failed_on.keys():
                self._cluster.cancel(stream)
                stranded.append(self._running.pop(stream))
        return stranded

    def _is_locked_elsewhere(self, job: Job) -> bool:
        holds_it = job.folder in self._unfinished and not self._shared
        return not holds_it and is_locked(job.folder)

    def _usable(self) -> list[Node]:
        return [node for node in self._nodes if node.id not in self._excluded]

    def _slots(self) -> int:
        return sum(node.slots for node in self._usable())

    def _capacity(self) -> int:
        """Trainings that may be sent: all that run, and some that wait, so that no node does."""
        if self._max_parallel:
            return self._max_parallel
        slots = self._slots()
        return slots + max(1, slots // 4)

    def _look_at_nodes(self, *, done: int, total: int) -> None:
        now = time.perf_counter()
        if self._nodes and now < self._seen_at + NODES_SECONDS:
            return
        if not self._seen_at:
            self._first_seen_at = now
        else:
            self._slot_seconds += self._slots() * (now - self._seen_at)
        before = {node.id for node in self._nodes}
        self._nodes, self._seen_at = self._cluster.nodes(), now
        if {node.id for node in self._nodes} != before:
            self._tell(done=done, total=total)
        if self._nodes and not self._usable():
            raise UserError("; ".join(dict.fromkeys(self._excluded.values())), topic="study")

    def _tell(self, *, done: int, total: int) -> None:
        self._on_study(StudyProgress(done, total, self._slots(), len(self._usable())))

    def _send(self, job: Job) -> None:
        """Send a training, with its last checkpoint if there is one."""
        unfinished = self._unfinished.get(job.folder)
        if unfinished is None:
            unfinished = UnfinishedJob(job, trained_seconds(job.folder))
            if not self._shared:
                unfinished.locks.enter_context(lock_run(job.folder, "training"))
                restore_interrupted(job.folder)
            self._unfinished[job.folder] = unfinished
        job.write_recipe(self._recipes)
        spec, contents = self._task_specs.spec(job, shared=self._shared)
        stream = self._cluster.submit(
            encode({**spec, "code": code_version()}),
            contents,
            name=f"regard: {job.title}",
            memory=self._needs.memory(job.variant, job.recipe, self._usable()),
            gpus=gpus(job.recipe),
            without=[*self._excluded, *unfinished.failed_on],
        )
        log = self._recipes / f"{job.file_name}.log"
        self._running[stream] = Attempt(job, log=log, on_job=self._on_job)

    def _receive(self) -> list[Attempt]:
        """Take the next message of each training that has one; the attempts that ended."""
        ended = []
        for stream in self._cluster.ready(list(self._running), seconds=WAIT_SECONDS):
            attempt = self._running[stream]
            try:
                message = self._cluster.receive(stream)
                if message is not None:
                    attempt.take(message)
                    continue
            except ProcessGoneError:
                attempt.is_gone = True
            except (NodeError, TransferError) as problem:
                attempt.problem = str(problem)
                self._cluster.cancel(stream)
            attempt.abandon()
            del self._running[stream]
            ended.append(attempt)
        return ended

    def _judge(self, attempt: Attempt) -> JobResult | None:
        """The result of a training; None if it is sent again."""
        job, unfinished = attempt.job, self._unfinished[attempt.job.folder]
        if attempt.unusable:
            why = f"node {attempt.address} takes no training: {attempt.unusable}"
            self._exclude(attempt.node, why)
            return None
        if attempt.exit_code == 0 and job.is_finished:
            if self._shared:
                keep_origin(job.folder, job)
            self._needs.learn(job.variant, job.folder)
            self._count_faults(unfinished.failed_on)
            return self._result(unfinished)
        if attempt.was_killed:
            unfinished.deaths += 1
            if unfinished.deaths < MAX_DEATHS:
                return None
            where = f"the last time on node {attempt.address}" if attempt.address else ""
            return self._result(
                unfinished, f"its process was killed {unfinished.deaths} times, {where}"
            )
        if diverged := divergence(job.folder):
            return self._result(unfinished, diverged)
        if self._shared and is_locked(job.folder):
            return None  # another process locked it first
        if attempt.node:
            unfinished.failed_on[attempt.node] = (attempt.address, attempt.reason)
        others = {node.id for node in self._usable()} - unfinished.failed_on.keys()
        if attempt.node and len(unfinished.failed_on) < MAX_TRIES and others:
            return None
        return self._result(unfinished, unfinished.failures or attempt.reason)

    def _result(self, unfinished: UnfinishedJob, reason: str = "") -> JobResult:
        job = unfinished.job
        seconds = max(0.0, trained_seconds(job.folder) - unfinished.seconds_before)
        unfinished.locks.close()
        del self._unfinished[job.folder]
        result = JobResult(job, reason, seconds)
        self._trained.append(result)
        return result

    def _count_faults(self, failures: Mapping[str, tuple[str, str]]) -> None:
        """A training that failed on these nodes has ended on another: the fault is theirs."""
        for node, (address, reason) in failures.items():
            self._faults[node] = self._faults.get(node, 0) + 1
            if self._faults[node] == MAX_FAULTS:
                self._exclude(node, f"node {address} takes no training any more: {reason}")

    def _exclude(self, node: str, why: str) -> None:
        self._excluded[node] = why
        if why not in self.remarks:
            self.remarks.append(why)
