"""Each rank's sign of life, and the end of a training in which one of them falls silent.

A thread counts up a key of its rank every second and watches the next rank. A rank that is killed
breaks its connections, which most others notice at once; this is for those that compute on their
own meanwhile, wait for a GPU, or hang.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from regard.training.interrupt import signal_received
from regard.training.parallel.launch import Launch
from regard.training.parallel.ranks import Store

BEAT_SECONDS = 1.0
SILENT_BEATS = 45
"A rank that has not counted up for so many beats has ended, or hangs; saving may take its time."
SIGNALLED_BEATS = 6
"So many are enough where a signal came: launchers send one as soon as a rank has ended."
GRACE_BEATS = 10
"After another rank failed, so many beats are left to notice it and end in order."
EXIT_CODE = 2


class Heartbeat(threading.Thread):
    """Counts up, and watches the next rank."""

    def __init__(self, launch: Launch, connect: Callable[[], Store]) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.launch = launch
        self.next = (launch.rank + 1) % launch.size
        self._connect = connect
        self._stopped = threading.Event()
        self._ending = False

    def run(self) -> None:
        try:
            self._watch(self._connect())
        except Exception:  # the store is gone: so is the launcher, or rank 0
            if not self._stopped.wait(GRACE_BEATS * BEAT_SECONDS):
                self._end("the launcher, or rank 0, is gone")

    def stop(self) -> None:
        self._stopped.set()
        if self.is_alive():
            self.join(BEAT_SECONDS)

    def only_beat(self) -> None:
        """The main thread knows that something failed, and ends in order."""
        self._ending = True

    def beats(self, rank: int) -> bool:
        """Whether a rank counts up now; asked by one that has failed."""
        store, key = self._connect(), _key(rank)
        before = store.add(key, 0)
        deadline = time.monotonic() + 2.5 * BEAT_SECONDS
        while time.monotonic() < deadline:
            if store.add(key, 0) != before:
                return True
            time.sleep(BEAT_SECONDS / 10)
        return False

    def _watch(self, store: Store) -> None:
        seen, silent, failed = -1, 0, 0
        while not self._stopped.wait(BEAT_SECONDS):
            store.add(_key(self.launch.rank), 1)
            count = store.add(_key(self.next), 0)
            silent = 0 if count != seen else silent + 1
            seen = count
            if self._ending:
                continue
            failed += store.check(["failed"])
            limit = SIGNALLED_BEATS if signal_received() else SILENT_BEATS
            if silent > limit and not store.check([f"left/{self.next}"]):
                store.set("failed", "")
                speaks = not store.check(["spoken"]) and store.add("speaker", 1) == 1
                what = f"rank {self.next} has given no sign of life for {limit} s"
                self._end(what if speaks else "")
            if failed > GRACE_BEATS:
                self._end("")

    def _end(self, what: str) -> None:
        """The main thread waits for what will not come: nothing but the process can end it. What is
        saved is whole, as after any kill."""
        if self._ending or self._stopped.is_set():
            return
        if what:
            hint = "Continue from the last checkpoint with --resume."
            print(f"ranks: {what}. {hint}", file=sys.stderr, flush=True)
        os._exit(EXIT_CODE)


def _key(rank: int) -> str:
    return f"beat/{rank}"
