"""The Ray cluster of a study: found at its address, or started on this machine alone.

One that is started here listens on loopback, has no dashboard, and reports nothing to anybody.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from regard.core.errors import UserError
from regard.core.process.cpu import usable_cores

ANSWER_SECONDS = 5.0
LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 256 << 20
"Of a cluster that is started here: what travels is cut into chunks."
MESSAGES_AHEAD = 8
"Of one training, before it waits for the driver."
MAX_LISTENERS = 100_000
"Trainings at a time."
OF_ITS_OWN = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray's name for it: nodes have no other address than loopback.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"Environment of a cluster that is started here: Ray reads it when it is imported."
GONE = (
    *("NodeDiedError", "WorkerCrashedError", "ObjectLostError", "OwnerDiedError"),
    *("OutOfMemoryError", "LocalRayletDiedError", "TaskCancelledError", "ActorDiedError"),
    *("ObjectFetchTimedOutError", "ReferenceCountingAssertionError", "NodePreemptedError"),
)
"Errors of Ray that say that the process of a training is gone."

Stream = Any
"Messages of a training, as they come."
Reference = Any


class ProcessGoneError(Exception):
    """The process that trained ended, with its node or alone."""


class NodeError(Exception):
    """What ran on a node failed before it could say why."""


@dataclass(frozen=True)
class Node:
    id: str
    address: str
    slots: int
    "Trainings of one CPU core that fit."
    memory: float

    def __str__(self) -> str:
        return self.address


class Cluster:
    """Nodes that train."""

    def __init__(self, ray: Any, *, stays: bool) -> None:
        self._ray = ray
        self._stays = stays
        self._stop_signal: Any = None

    @classmethod
    def connect(cls, address: str | None, *, slots: int) -> Cluster:
        """The cluster at an address; without one, `slots` trainings on this machine."""
        if address is not None:
            check_answers(address)
        alone = address is None
        with _environment(OF_ITS_OWN if alone else {}):
            ray = _import_ray()
            if ray.is_initialized():  # by the program that calls regard
                return cls(ray, stays=True)
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
            if alone:
                options |= {
                    "address": "local",
                    "num_cpus": slots or usable_cores(),
                    "include_dashboard": False,
                    "object_store_memory": OBJECT_STORE_BYTES,
                }
            else:
                options["address"] = address
            try:
                with _signal_handlers_kept():
                    ray.init(**options)
            except Exception as problem:  # Ray has no class of its own for it
                hint = "Start the cluster with this version of Ray; give HOST:PORT of its head."
                raise UserError(
                    f"Ray cannot be used: {' '.join(str(problem).split())}",
                    topic="study",
                    where=f"--address {address}" if address else "",
                    hint="If this machine is busy, run the same command again." if alone else hint,
                ) from None
        _silence(ray)
        cluster = cls(ray, stays=False)
        if alone and ray.util.get_node_ip_address() != LOOPBACK:
            cluster.close()
            raise UserError(
                "Ray was imported before and would listen on every network",
                topic="study",
                hint="Call ray.init() yourself first, or leave the import of Ray to regard.",
            )
        return cluster

    def close(self) -> None:
        if not self._stays:
            with _signal_handlers_kept():
                self._ray.shutdown()

    def nodes(self) -> list[Node]:
        """Those that are alive and can train."""
        found = []
        for row in self._ray.nodes():
            resources = row["Resources"]
            if row["Alive"] and (slots := int(resources.get("CPU", 0))):
                memory = float(resources.get("memory", 0.0))
                found.append(Node(row["NodeID"], row["NodeManagerAddress"], slots, memory))
        return found

    def put(self, chunks: Iterator[bytes]) -> list[Reference]:
        """Make chunks of a file available to every node."""
        return [self._ray.put(chunk) for chunk in chunks]

    def submit(
        self,
        spec: bytes,
        contents: Mapping[str, Sequence[Reference]],
        *,
        name: str,
        memory: int,
        gpus: int,
        without: Sequence[str],
    ) -> Stream:
        """Train what a spec says, on any node but these."""
        task = self._ray.remote(training_task()).options(
            name=name,
            num_cpus=1,
            num_gpus=gpus,
            memory=memory,
            num_returns="streaming",
            max_retries=0,  # the study sends it again, with the last checkpoint
            scheduling_strategy="SPREAD",
            label_selector={"ray.io/node-id": f"!in({','.join(without)})"} if without else None,
            _generator_backpressure_num_objects=MESSAGES_AHEAD,
        )
        return task.remote(spec, dict(contents), self._stop_signal_actor())

    def ready(self, streams: Sequence[Stream], *, seconds: float) -> list[Stream]:
        """Those with a message, waiting for the first one."""
        if not streams:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(streams), num_returns=1, timeout=seconds)
        if ready:
            ready, _ = self._ray.wait(list(streams), num_returns=len(streams), timeout=0)
        return list(ready)

    def receive(self, stream: Stream) -> bytes | None:
        """Its next message; None at its end."""
        errors = self._ray.exceptions
        gone: tuple[type[Exception], ...] = tuple(
            getattr(errors, name) for name in GONE if hasattr(errors, name)
        )
        try:
            message: bytes = self._ray.get(next(stream))
            return message
        except StopIteration:
            return None
        except gone as problem:
            raise ProcessGoneError(str(problem).partition("\n")[0]) from None
        except (errors.RayError, RuntimeError) as problem:
            raise NodeError(str(problem).strip().rpartition("\n")[2]) from None

    def stop_trainings(self) -> None:
        """Each saves a checkpoint and ends."""
        if self._stop_signal is not None:
            self._stop_signal.set.remote()

    def cancel(self, stream: Stream) -> None:
        with suppress(Exception):  # it has ended, however
            self._ray.cancel(stream, force=True)

    def _stop_signal_actor(self) -> Any:
        if self._stop_signal is None:
            here = self._ray.get_runtime_context().get_node_id()
            strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
            on_this_node = strategy(here, soft=False)
            actor = self._ray.remote(stop_signal_class()).options(
                num_cpus=0, max_concurrency=MAX_LISTENERS, scheduling_strategy=on_this_node
            )
            self._stop_signal = actor.remote()
        return self._stop_signal


def training_task() -> Callable[..., Iterator[bytes]]:
    """What Ray runs on a node. Made inside a function, so that it travels itself: a node without
    regard can say so."""

    def train(spec: bytes, contents: dict[str, list[Any]], stop_signal: Any) -> Iterator[bytes]:
        import json

        import ray

        context = ray.get_runtime_context()
        node = {"id": context.get_node_id(), "address": ray.util.get_node_ip_address()}
        yield json.dumps({"kind": "node", **node}).encode() + b"\n"
        try:
            from regard.studies.engines.ray.node import train_on_node
        except ImportError as problem:
            reason = f"regard cannot be imported there ({problem})"
            yield json.dumps({"kind": "unusable", "reason": reason}).encode() + b"\n"
            return
        stopped = [stop_signal.wait.remote()]
        yield from train_on_node(
            json.loads(spec),
            contents,
            fetch=ray.get,
            is_stopped=lambda: bool(ray.wait(stopped, timeout=0)[0]),
        )

    return train


def stop_signal_class() -> type:
    """An actor that every training waits for, and that the driver sets."""

    class StopSignal:
        def __init__(self) -> None:
            import asyncio

            self._event = asyncio.Event()

        async def wait(self) -> None:
            await self._event.wait()

        async def set(self) -> None:
            self._event.set()

    return StopSignal


def check_answers(address: str) -> None:
    """An error if nobody listens at HOST:PORT."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    problem = "" if host and port.isdigit() else "this is not HOST:PORT"
    if not problem:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS):
                pass
        except (OSError, OverflowError) as refused:
            problem = f"nobody answers there ({refused})"
    if problem:
        raise UserError(
            problem,
            topic="study",
            where=f"--address {address}",
            hint="Start the head with `ray start --head`, and give HOST:PORT as it prints them.",
        )


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UserError(
            "--engine ray needs Ray, which is not installed",
            topic="study",
            hint="pip install 'regard[ray]'; without it, --engine local uses this machine.",
        ) from None
    return ray


def _silence(ray: Any) -> None:
    """A node that dies is said in Ray's words on standard output, where our results are; the
    function has no public switch."""
    if hasattr(ray._private.worker, "print_to_stdstream"):
        ray._private.worker.print_to_stdstream = lambda *_, **__: None


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Ray replaces the handler of SIGTERM, which saves what is trained."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
