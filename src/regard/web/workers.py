"""Worker processes for what takes a CPU core: few, with a queue, a time limit, and an end.

A request that nobody waits for any more is cancelled. Where its worker had begun, that is let end
if it soon does; else the process is ended, and the next request starts another.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from regard.core.errors import UserError
from regard.core.process.cpu import usable_cores

MAX_WORKERS = 2
MAX_WAITING = 16
"Requests that wait for a worker; further ones are refused."
MAX_SECONDS = 300.0
"Of one call. The longest lessons train for a minute."
GRACE_SECONDS = 1.0
"For a call that nobody waits for any more, unless it says another `grace`."
MAX_LINE = 32 << 20


class BusyError(UserError):
    """Too many requests wait."""


class Worker:
    """One process, started when it is first needed."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._clearing: asyncio.Task[None] | None = None
        self._calls = 0

    async def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        if self._clearing is not None:
            await asyncio.shield(self._clearing)  # who waits for it may go, it goes on
            self._clearing = None
        process = self._process or await self.start()
        self._calls += 1
        number = self._calls
        try:
            async with asyncio.timeout(MAX_SECONDS):
                assert process.stdin is not None
                process.stdin.write(json.dumps({**call, "id": number}).encode() + b"\n")
                await process.stdin.drain()
                return await _answer(process, number)
        except asyncio.CancelledError:
            grace = float(call.get("grace", GRACE_SECONDS))
            self._clearing = asyncio.create_task(self._clear(process, number, grace))
            raise
        except TimeoutError:
            await self.end()
            raise UserError(f"took longer than {MAX_SECONDS:.0f} s", topic="page") from None
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            await self.end()
            raise UserError(
                "the process that computed it ended", topic="page", hint="Try it again."
            ) from None

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    @property
    def is_started(self) -> bool:
        return self._process is not None

    async def start(self) -> Process:
        # One thread, and no more of the machine than a training leaves.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "regard.web.worker",
            stdin=PIPE,
            stdout=PIPE,
            env=environment,
            limit=MAX_LINE,
            start_new_session=True,
        )
        return process

    async def _clear(self, process: Process, number: int, grace: float) -> None:
        """Take the answer that nobody waits for, or end the process."""
        try:
            async with asyncio.timeout(grace):
                await _answer(process, number)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, ValueError):
            await self.end()


class Workers:
    """The workers of a server."""

    def __init__(self) -> None:
        self._workers = [Worker() for _ in range(max(1, min(MAX_WORKERS, usable_cores())))]
        self._free: asyncio.LifoQueue[Worker] = asyncio.LifoQueue()
        for worker in self._workers:
            self._free.put_nowait(worker)
        self._waiting = 0
        self._preparing: asyncio.Task[Process] | None = None

    def prepare(self) -> None:
        """Start a process that will soon be needed: its imports take seconds."""
        worker = self._workers[-1]  # the one that is taken first
        if not worker.is_started and self._preparing is None:
            self._preparing = asyncio.create_task(worker.start())

    async def run(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a call; a `UserError` where it is refused."""
        if self._waiting >= MAX_WAITING:
            raise BusyError("too many requests wait for a worker: try again soon", topic="page")
        self._waiting += 1
        try:
            if self._preparing is not None:
                await asyncio.shield(self._preparing)
            worker = await self._free.get()
        finally:
            self._waiting -= 1
        try:
            answer = await worker.answer(call)
        finally:
            self._free.put_nowait(worker)
        if "error" in answer:
            raise UserError(answer["error"])
        if "bug" in answer:
            raise RuntimeError(answer["bug"])
        return dict(answer["result"])

    async def close(self) -> None:
        for worker in self._workers:
            await worker.end()


async def _answer(process: Process, number: int) -> dict[str, Any]:
    """The answer to a call; those to earlier ones, that were cancelled, are passed over."""
    assert process.stdout is not None
    while True:
        line = await process.stdout.readline()
        if not line:
            raise asyncio.IncompleteReadError(b"", None)
        answer = dict(json.loads(line))
        if answer["id"] == number:
            return answer
