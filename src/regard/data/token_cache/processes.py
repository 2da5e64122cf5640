"""Tokenizing in several processes: each takes one shard after another and writes its files.

    to its standard input       a line of JSON, {"folder", "tokenizer", "name", "max_tokens", …},
                                and for each shard {"shard", "texts", "bytes"} with its arrays
    from its standard output    for each shard a line, {"error": null} or what is wrong

What travels is bytes and JSON. A process computes on one core, and ends where its input ends, so
none is left behind by a preparation that is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import numpy as np

from regard.core.errors import UserError
from regard.core.process.thread_memory import check_thread_memory
from regard.data.token_cache.shards import (
    Shard,
    TokenizedShard,
    find_shard,
    made_with,
    tokenize_shard,
)
from regard.data.tokenizers.tokenizer import Tokenizer

ENVIRONMENT = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
END_SECONDS = 10


class ProcessEndedError(UserError):
    """A process that tokenizes was killed, or could not start."""


class TokenProcess:
    """One process, seen from the preparation."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, *, max_tokens: int | None) -> None:
        self.folder, self._made_with = folder, made_with(tokenizer, max_tokens)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],  # no module of the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | ENVIRONMENT,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
        self._send(
            {
                "folder": str(folder.resolve()),
                "tokenizer": tokenizer.to_json(),
                "name": tokenizer.name,
                "max_tokens": max_tokens,
            }
        )

    def tokenize(self, shard: Shard) -> TokenizedShard:
        self._send({"shard": shard.number, "texts": len(shard), "bytes": len(shard.content)})
        for part in (shard.splits.tobytes(), shard.ends.tobytes(), shard.content):
            self._write(part)
        self._flush()
        answer = self._answers.readline()
        if not answer:
            raise self._ended()
        problem = json.loads(answer)["error"]
        if problem is not None:
            raise UserError(problem)
        tokenized = find_shard(self.folder, shard, made_with=self._made_with)
        if tokenized is None:
            raise self._ended()
        return tokenized

    def close(self, *, kill: bool = False) -> None:
        if kill:
            self._process.kill()
        with suppress(OSError):
            self._orders.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def _send(self, order: dict[str, Any]) -> None:
        self._write(json.dumps(order).encode() + b"\n")

    def _write(self, content: bytes) -> None:
        try:
            self._orders.write(content)
        except OSError:  # a broken pipe
            raise self._ended() from None

    def _flush(self) -> None:
        try:
            self._orders.flush()
        except OSError:
            raise self._ended() from None

    def _ended(self) -> ProcessEndedError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        return ProcessEndedError(
            f"a process that tokenizes has ended (exit code {self._process.returncode})",
            topic="data",
            hint="Shards that are done are kept: run it again, with train.threads = 1 if memory "
            "was short.",
        )


def tokenize_in_processes(
    shards: Iterable[Shard],
    folder: Path,
    tokenizer: Tokenizer,
    *,
    max_tokens: int | None,
    processes: int,
) -> Iterator[tuple[Shard, TokenizedShard]]:
    """Each shard with its files, in order; those that an earlier process left are taken."""
    free: SimpleQueue[TokenProcess] = SimpleQueue()
    started: list[TokenProcess] = []
    pending: deque[tuple[Shard, Future[TokenizedShard]]] = deque()
    same = made_with(tokenizer, max_tokens)
    failed = True

    def tokenize(shard: Shard) -> TokenizedShard:
        found = find_shard(folder, shard, made_with=same)
        if found is not None:
            return found
        process = free.get()
        try:
            return process.tokenize(shard)
        finally:
            free.put(process)

    check_thread_memory()
    try:
        with ThreadPoolExecutor(processes) as pool:
            try:
                for _ in range(processes):
                    started.append(TokenProcess(folder, tokenizer, max_tokens=max_tokens))
                    free.put(started[-1])
                for shard in shards:
                    pending.append((shard, pool.submit(tokenize, shard)))
                    while len(pending) > processes:  # one waits, so that nobody else does
                        done, future = pending.popleft()
                        yield done, future.result()
                while pending:
                    done, future = pending.popleft()
                    yield done, future.result()
                failed = False
            finally:
                if failed:  # threads wait for answers, and the pool for its threads
                    for process in started:
                        process.close(kill=True)
                    pool.shutdown(cancel_futures=True)
    finally:
        for process in started:
            process.close(kill=failed)


def main() -> None:
    """The process itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the preparation, which ends it
    orders, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not answer
    order = json.loads(orders.readline() or b"null")
    if order is None:
        return
    tokenizer = Tokenizer.from_json(order["tokenizer"], name=order["name"])
    folder, max_tokens = Path(order["folder"]), order["max_tokens"]
    same = made_with(tokenizer, max_tokens)
    shards: SimpleQueue[Shard] = SimpleQueue()
    check_thread_memory()
    threading.Thread(target=_read_shards, args=(orders, shards), daemon=True).start()
    while True:
        problem = None
        try:
            tokenize_shard(shards.get(), folder, tokenizer, max_tokens=max_tokens, made_with=same)
        except UserError as error:
            problem = str(error)
        except OSError as error:  # a full disk
            problem = f"{folder}: {error.strerror}"
        answers.write(json.dumps({"error": problem}).encode() + b"\n")
        answers.flush()


def _read_shards(orders: IO[bytes], shards: SimpleQueue[Shard]) -> None:
    """At the end of the input the process ends, also in the middle of a shard: whoever goes on with
    a preparation that was killed shall find nobody who still writes."""
    while (line := orders.readline()).endswith(b"\n"):
        order = json.loads(line)
        texts = order["texts"]
        splits = np.frombuffer(orders.read(texts), np.uint8)
        ends = np.frombuffer(orders.read(8 * texts), np.int64)
        content = orders.read(order["bytes"])
        if len(content) == order["bytes"]:
            shards.put(Shard(order["shard"], splits, ends, np.zeros(texts, np.uint64), content))
    os._exit(0)


if __name__ == "__main__":
    main()
