"""The ranks of a training as one: what the first of them decides, all of them know.

Rank 0 is the one that reads the run folder, evaluates and writes; `OneRank` is a process on its
own, for which all of this costs nothing. What is not a sum of tensors goes through the launcher's
key-value store, as JSON: ranks wait there as long as it takes, and notice if one has failed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from regard.core.errors import UserError
from regard.core.process.cpu import usable_cores
from regard.training.parallel.launch import Launch

MIN_WAIT, MAX_WAIT = 0.001, 0.1
"Seconds between two looks at the store."
MAX_DIFFERENCES = 3
"Named in a sentence."


class Store(Protocol):
    """What is used of torch's key-value stores."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> bytes: ...

    def add(self, key: str, amount: int) -> int: ...

    def check(self, keys: list[str]) -> bool: ...


class LostRankError(Exception):
    """Another rank has failed or ended."""


class OneRank:
    """A training of one process."""

    rank = 0
    size = 1
    is_first = True

    def __init__(self, *, restarted: bool = False) -> None:
        self.restarted = restarted
        "Whether the launcher has started this training again."

    def first_decides(self, what: str, decide: Callable[[], Any]) -> Any:
        """What rank 0 decides, known to all; has to be JSON."""
        return decide()

    @contextmanager
    def first_before_others(self, what: str) -> Iterator[None]:
        """Within: rank 0, and when it is through, the others at once."""
        yield

    def meet(self, what: str) -> None:
        """Wait until all ranks are here."""

    def check_same(self, facts: Callable[[], Mapping[str, str]]) -> None:
        """Refuse ranks whose facts, by name, differ from those of rank 0."""

    def note_begun(self) -> None:
        """What follows is continued where the launcher starts all ranks again."""

    def has_begun(self) -> bool:
        """Whether this is such a start."""
        return self.restarted

    def device(self, device: str) -> str:
        """The device of this rank, where the recipe names one for all."""
        return device

    def threads(self, wanted: int) -> int:
        """CPU threads of this rank, which shares the cores of its machine."""
        return wanted


ONE_RANK = OneRank()


class JoinedRanks(OneRank):
    """One of several processes, which have found each other."""

    def __init__(self, launch: Launch, store: Store, *, lasting: Store) -> None:
        """`store` is of this start of the ranks, `lasting` of all of them."""
        super().__init__(restarted=launch.restarts > 0)
        self.launch = launch
        self.store = store
        self.lasting = lasting
        self.rank = launch.rank
        self.size = launch.size
        self.is_first = launch.rank == 0
        self._met = 0

    def first_decides(self, what: str, decide: Callable[[], Any]) -> Any:
        key = self._next(what)
        if self.is_first:
            decided = decide()
            self.store.set(key, json.dumps(decided))
            return decided
        return json.loads(self.wait_for(key))

    @contextmanager
    def first_before_others(self, what: str) -> Iterator[None]:
        if self.is_first:
            yield
        self.first_decides(what, lambda: None)
        if not self.is_first:
            yield
        self.meet(what)

    def meet(self, what: str) -> None:
        key = self._next(what)
        if self.store.add(f"{key}/arrived", 1) == self.size:
            self.store.set(key, "")
        self.wait_for(key)

    def check_same(self, facts: Callable[[], Mapping[str, str]]) -> None:
        ours = facts()
        theirs = self.first_decides("facts", lambda: ours)
        differ = [
            f"{key} is {ours.get(key, 'missing')} here and {theirs.get(key, 'missing')} on rank 0"
            for key in sorted(ours.keys() | theirs.keys())
            if ours.get(key) != theirs.get(key)
        ]
        if differ:
            raise UserError(
                f"the ranks differ: {'; '.join(differ[:MAX_DIFFERENCES])}",
                hint="Give every rank the same versions, recipe and files.",
            )
        self.meet("same facts")

    def note_begun(self) -> None:
        if self.is_first:
            self.lasting.set("begun", "")

    def has_begun(self) -> bool:
        return self.restarted and self.lasting.check(["begun"])

    def device(self, device: str) -> str:
        """The GPU with the number of this rank among those of its machine."""
        import torch

        kind, _, number = device.partition(":")
        if device == "auto":
            kind = "cuda" if torch.cuda.is_available() else "cpu"
        if kind == "mps":
            raise UserError(
                f"train.device = {device!r} cannot be shared by {self.size} ranks",
                topic="recipe",
                hint='Set train.device = "cpu", or train without torchrun.',
            )
        if kind != "cuda":
            return "cpu" if device == "auto" else device
        if number and self.launch.local_size == 1:
            return device
        count = torch.cuda.device_count()
        if number.isdecimal() and int(number) < count:
            raise UserError(
                f"train.device = {device!r} is one GPU for {self.launch.local_size} ranks",
                topic="recipe",
                hint='Set train.device = "cuda": each rank takes its own.',
            )
        if not number and 0 < count <= self.launch.local_rank:
            raise UserError(
                f"this machine has {count} GPU{'s' * (count != 1)} for "
                f"{self.launch.local_size} ranks",
                topic="ranks",
                hint=f"Start as many as there are: torchrun --nproc-per-node {count}.",
            )
        # What no machine could use is left to the check of devices.
        return device if number or not count else f"cuda:{self.launch.local_rank}"

    def threads(self, wanted: int) -> int:
        return max(1, min(wanted, usable_cores() // self.launch.local_size))

    def wait_for(self, key: str) -> bytes:
        """The value of a key, once it is there."""
        pause = MIN_WAIT
        while not self.store.check([key]):
            if self.store.check(["failed"]):
                raise LostRankError
            time.sleep(pause)
            pause = min(2 * pause, MAX_WAIT)
        return self.store.get(key)

    def _next(self, what: str) -> str:
        """A key that all ranks name alike, for they come here in the same order."""
        self._met += 1
        return f"{self._met}/{what}"
