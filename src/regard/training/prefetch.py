"""Prefetching: the next batches are built in a background thread while the current one is used.

Time spent waiting is measured, so that a run can report whether its input pipeline is too slow.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

Item = TypeVar("Item")
QUEUE_SIZE = 3
"Maximum items that are built, or being built, and not yet taken."


class Prefetcher(Generic[Item]):
    """An iterator over `items` that builds them in a background thread, which ends with `with`."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches")
        self._queue: deque[Future[Item]] = deque()
        self.wait_seconds = 0.0
        "Seconds spent waiting because no item was built."

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        self._fill_queue()  # by the first item taken, so that an unused one builds nothing
        began = time.perf_counter()
        # Only an item leaves the queue: after the end, or an error, a later call ends the same way.
        item = self._queue[0].result()
        self.wait_seconds += time.perf_counter() - began
        self._queue.popleft()
        self._fill_queue()
        return item

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)

    def _fill_queue(self) -> None:
        while len(self._queue) < QUEUE_SIZE:
            self._queue.append(self._executor.submit(next, self._items))
