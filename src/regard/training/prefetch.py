"""Things made ahead, in a thread of its own: while one is used, the next is made.

What is waited for is counted, so that a training can tell whether its input holds it up.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

Item = TypeVar("Item")
AHEAD = 2
"Made and not yet taken, at most."


class _Made(NamedTuple, Generic[Item]):
    item: Item


class _Ended(NamedTuple):
    problem: BaseException | None


class Prefetcher(Generic[Item]):
    """An iterator over `items`, which are made in another thread; `close` ends that thread."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._ready: queue.Queue[_Made[Item] | _Ended] = queue.Queue(maxsize=AHEAD)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.waited = 0.0
        "Seconds in which there was nothing to take yet."

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        if self._thread is None:  # not before: who takes nothing makes nothing
            self._thread = threading.Thread(target=self._make, name="batches", daemon=True)
            self._thread.start()
        began = time.perf_counter()
        got = self._ready.get()
        self.waited += time.perf_counter() - began
        if isinstance(got, _Ended):
            self._ready.put(got)  # whoever asks again hears the same
            raise StopIteration if got.problem is None else got.problem
        return got.item

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            while self._thread.is_alive():  # it may wait for room
                self._empty()
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

    def _make(self) -> None:
        try:
            for item in self._items:
                self._ready.put(_Made(item))
                if self._closed.is_set():
                    return
            self._ready.put(_Ended(None))
        except BaseException as problem:  # raised where the item is asked for
            self._ready.put(_Ended(problem))

    def _empty(self) -> None:
        while not self._ready.empty():
            self._ready.get_nowait()
