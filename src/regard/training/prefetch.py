"""Prefetching: the next batches are built in a background thread while the current one is used.

Time spent waiting is measured, so that a run can report whether its input pipeline is too slow.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

Item = TypeVar("Item")
QUEUE_SIZE = 2
"Maximum items that are built and not yet taken."


class _Value(NamedTuple, Generic[Item]):
    item: Item


class _End(NamedTuple):
    problem: BaseException | None


class Prefetcher(Generic[Item]):
    """An iterator over `items` that builds them in a background thread; `close` ends the thread."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._queue: queue.Queue[_Value[Item] | _End] = queue.Queue(maxsize=QUEUE_SIZE)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.wait_seconds = 0.0
        "Seconds spent waiting because the queue was empty."

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        if self._thread is None:  # started by the first item taken, so an unused one builds nothing
            self._thread = threading.Thread(target=self._fill_queue, name="batches", daemon=True)
            self._thread.start()
        began = time.perf_counter()
        entry = self._queue.get()
        self.wait_seconds += time.perf_counter() - began
        if isinstance(entry, _End):
            self._queue.put(entry)  # a later call ends the same way
            raise StopIteration if entry.problem is None else entry.problem
        return entry.item

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            while self._thread.is_alive():  # it may be blocked on a full queue
                self._drain_queue()
                self._thread.join(timeout=0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _fill_queue(self) -> None:
        try:
            for item in self._items:
                self._queue.put(_Value(item))
                if self._closed.is_set():
                    return
            self._queue.put(_End(None))
        except BaseException as problem:  # raised again in the thread that takes the item
            self._queue.put(_End(problem))

    def _drain_queue(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()
