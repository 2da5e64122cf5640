"""Prefetching: the next batches are built in a background thread while the current one is used.

Time spent waiting is measured, so that a run can report whether its input pipeline is too slow.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import count
from typing import Generic, Self, TypeVar

from regard.core.process.thread_memory import check_thread_memory

Item = TypeVar("Item")
WATCH_SECONDS = 5.0
"Between looks at whether the thread that builds items is still there."
_NUMBERS = count()
QUEUE_SIZE = 3
"Maximum items that are built, or being built, and not yet taken."


class Prefetcher(Generic[Item]):
    """An iterator over `items` that builds them in a background thread, which ends with `with`."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._name = f"batches-{next(_NUMBERS)}-"
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self._name)
        self._queue: deque[Future[Item]] = deque()
        self.wait_seconds = 0.0
        "Seconds spent waiting because no item was built."

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        self._fill_queue()  # by the first item taken, so that an unused one builds nothing
        began = time.perf_counter()
        # Only an item leaves the queue: after the end, or an error, a later call ends the same way.
        item = self._wait_for(self._queue[0])
        self.wait_seconds += time.perf_counter() - began
        self._queue.popleft()
        self._fill_queue()
        return item

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)

    def _wait_for(self, future: Future[Item]) -> Item:
        """Its result; a thread for which memory was too short dies without a word."""
        while not wait((future,), timeout=WATCH_SECONDS).done:
            names = [thread.name for thread in threading.enumerate()]
            if not any(name.startswith(self._name) for name in names):
                raise MemoryError("can't start new thread")
        return future.result()

    def _fill_queue(self) -> None:
        if not self._queue:
            check_thread_memory()
        while len(self._queue) < QUEUE_SIZE:
            self._queue.append(self._executor.submit(next, self._items))
