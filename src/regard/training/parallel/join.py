"""Joining the ranks that the launcher started, and leaving them: one sentence for all that fails.

    with joined_ranks() as ranks: …      the same code on every rank

A rank that fails says so in the store, and exactly one rank speaks: the one whose error it is, or
rank 0 where all have the same. The others end silently, with the same exit code.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from typing import NoReturn

import torch
import torch.distributed as dist

from regard.core.errors import UserError
from regard.training.interrupt import STOP_SIGNALS, TrainingInterrupt, exit_code
from regard.training.parallel.heartbeat import Heartbeat
from regard.training.parallel.launch import Launch
from regard.training.parallel.ranks import JoinedRanks, LostRankError, OneRank

JOIN_SECONDS = 300.0
"Between the first rank and the last; a launcher starts them together."
STEP_SECONDS = 1800.0
"A rank that others wait for longer than this within a step has failed."
FIRST_SPEAKS_SECONDS = 2.0
"What fails on a rank probably fails on all: rank 0 is given time to say it."
SILENT_SECONDS = 4.0
"Ranks that failed because another one did wait so long for it to say why."
LEAVE_SECONDS = 3.0
"Ranks wait so long for each other to end together."
PAUSE = 0.05
LOST = ("gloo", "connection", "socket", "nccl", "broken pipe")
"In the messages of torch where another rank is not there any more."
ERROR_CODE, BUG_CODE = 2, 70

_joined: list[OneRank] = []
_joins = count()


@contextmanager
def joined_ranks() -> Iterator[OneRank]:
    """The ranks of this training, joined once; those of a process on its own are one."""
    if _joined:
        yield _joined[-1]
        return
    launch = Launch.of_environment()
    if launch is None:
        yield OneRank(restarted=os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0"))
        return
    number = next(_joins)  # each has keys of its own
    prefix = f"regard/{launch.restarts}/{number}"
    ranks = _join(launch, prefix, lasting=f"regard/lasting/{number}")
    heartbeat = Heartbeat(launch, lambda: _connect(launch, prefix, hosts_store=False))
    heartbeat.start()
    _joined.append(ranks)
    try:
        yield ranks
        ranks.meet("end")
    except BaseException as problem:
        _fail(ranks, heartbeat, problem)
    else:
        heartbeat.stop()
        dist.destroy_process_group()
        _leave(ranks)
    finally:
        _joined.remove(ranks)


def _join(launch: Launch, prefix: str, *, lasting: str) -> JoinedRanks:
    if not dist.is_available():
        raise UserError(
            "this torch was built without torch.distributed",
            topic="ranks",
            hint="Install torch from its own packages, or train without torchrun.",
        )
    store = _connect(launch, prefix, hosts_store=launch.hosts_store)
    lasting_store = _connect(launch, lasting, hosts_store=False)
    ranks = JoinedRanks(launch, store, lasting=lasting_store)
    store.add("joined", 1)
    began = time.monotonic()
    while (there := store.add("joined", 0)) < launch.size:
        if time.monotonic() - began > JOIN_SECONDS:
            raise UserError(
                f"only {there} of {launch.size} ranks came within {JOIN_SECONDS:.0f} s",
                topic="ranks",
                hint="Look at the output of the others, and start all of them again.",
            )
        time.sleep(PAUSE)
    # Control always goes over gloo: no GPU waits for it.
    backend = "cpu:gloo,cuda:nccl" if dist.is_nccl_available() else "gloo"
    dist.init_process_group(
        backend if torch.cuda.is_available() else "gloo",
        store=dist.PrefixStore("group", store),
        rank=launch.rank,
        world_size=launch.size,
        timeout=timedelta(seconds=STEP_SECONDS),
    )
    return ranks


def _connect(launch: Launch, prefix: str, *, hosts_store: bool) -> dist.Store:
    """A connection to the store."""
    where = f"{launch.address}:{launch.port}"
    try:
        store = dist.TCPStore(
            launch.address,
            launch.port,
            is_master=hosts_store,
            wait_for_workers=False,
            timeout=timedelta(seconds=JOIN_SECONDS),
            multi_tenant=True,  # this process may have opened it before
        )
    except RuntimeError as problem:  # torch's DistNetworkError is one
        if hosts_store and "address already in use" in str(problem).lower():
            raise UserError(
                f"port {launch.port} is in use on this machine",
                topic="ranks",
                hint="Set MASTER_PORT to a free one; torchrun --standalone finds one itself.",
            ) from None
        raise UserError(
            f"there is no way to the other ranks at {where}",
            topic="ranks",
            hint="Check MASTER_ADDR and MASTER_PORT, or the --rdzv-endpoint of torchrun.",
        ) from None
    return dist.PrefixStore(prefix, store)


def _fail(ranks: JoinedRanks, heartbeat: Heartbeat, problem: BaseException) -> NoReturn:
    """End this rank after an error: with the error if it is this rank that says it."""
    _ignore_signals()
    heartbeat.only_beat()
    lost = _is_lost(problem)
    try:
        speaks, missing, code = _agree_on_speaker(ranks, heartbeat, problem)
    except RuntimeError:  # the store is gone, and with it the machine that held it
        speaks, missing, code = True, [], ERROR_CODE
    if not speaks:
        raise SystemExit(code) from None
    if lost or (missing and isinstance(problem, KeyboardInterrupt)):
        raise lost_ranks(missing) from None
    if isinstance(problem, UserError) and not ranks.is_first:
        problem.topic = f"rank {ranks.rank} on {socket.gethostname()}: {problem.topic}".rstrip(": ")
    raise problem


def _agree_on_speaker(
    ranks: JoinedRanks, heartbeat: Heartbeat, problem: BaseException
) -> tuple[bool, list[int], int]:
    """Whether this rank says what happened, which ranks have ended without a word, and the exit
    code."""
    store = ranks.store
    # Others fail because of it, rather than by themselves.
    is_cause = not (_is_lost(problem) or isinstance(problem, KeyboardInterrupt))
    store.set(f"failed/{ranks.rank}", json.dumps([is_cause, code_of(problem)]))
    store.set("failed", "")
    failed: dict[int, tuple[bool, int]] = {}
    deadline = time.monotonic() + (FIRST_SPEAKS_SECONDS if is_cause else SILENT_SECONDS)
    while not (is_cause and ranks.is_first) and time.monotonic() < deadline:
        if store.check(["spoken"]):
            break
        failed = _failures(ranks)
        if len(failed) == ranks.size and not any(cause for cause, _ in failed.values()):
            break
        time.sleep(PAUSE)
    speaks = not store.check(["spoken"]) and store.add("speaker", 1) == 1
    if speaks:
        store.set("spoken", "")
    missing = [rank for rank in range(ranks.size) if rank not in failed and not is_cause and speaks]
    missing = [rank for rank in missing if not heartbeat.beats(rank)]
    _leave(ranks, without=missing)
    heartbeat.stop()
    causes = [code for cause, code in _failures(ranks).values() if cause]
    return speaks, missing, max(causes, default=code_of(problem))


def _failures(ranks: JoinedRanks) -> dict[int, tuple[bool, int]]:
    """Of each rank that has failed: whether by itself, and its exit code."""
    keys = {rank: f"failed/{rank}" for rank in range(ranks.size)}
    return {
        rank: json.loads(ranks.store.get(key))
        for rank, key in keys.items()
        if ranks.store.check([key])
    }


def lost_ranks(ranks: list[int]) -> UserError:
    who = f"rank {', '.join(map(str, ranks))}" if ranks else "another rank"
    return UserError(
        f"{who} ended without a word: killed, out of memory, or its machine is gone",
        topic="ranks",
        hint="Continue from the last checkpoint with --resume; torchrun --max-restarts N does so "
        "by itself.",
    )


def _is_lost(problem: BaseException) -> bool:
    if isinstance(problem, LostRankError):
        return True
    said = str(problem).lower()
    return isinstance(problem, RuntimeError) and any(sign in said for sign in LOST)


def code_of(problem: BaseException) -> int:
    """The exit code of the command."""
    if isinstance(problem, SystemExit):
        return problem.code if isinstance(problem.code, int) else BUG_CODE
    if isinstance(problem, TrainingInterrupt | KeyboardInterrupt):
        return exit_code(problem)
    if isinstance(problem, UserError | OSError | MemoryError) or _is_lost(problem):
        return ERROR_CODE
    return BUG_CODE


def _leave(ranks: JoinedRanks, *, without: Sequence[int] = ()) -> None:
    """End together, so that no launcher stops those who are not through with saying why."""
    others = [rank for rank in range(ranks.size) if rank not in (*without, ranks.rank)]
    with suppress(RuntimeError):
        ranks.store.set(f"left/{ranks.rank}", "")
        _wait_for(ranks.store, [f"left/{rank}" for rank in others])
        if ranks.launch.hosts_store:  # torch complains to those who still look when it is gone
            _wait_for(ranks.store, [f"looked/{rank}" for rank in others])
            time.sleep(PAUSE)
        else:
            ranks.store.set(f"looked/{ranks.rank}", "")


def _wait_for(store: dist.Store, keys: Sequence[str]) -> None:
    deadline = time.monotonic() + LEAVE_SECONDS
    while time.monotonic() < deadline and not all(store.check([key]) for key in keys):
        time.sleep(PAUSE)


def _ignore_signals() -> None:
    """A launcher stops all ranks as soon as one has ended."""
    if threading.current_thread() is threading.main_thread():
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
