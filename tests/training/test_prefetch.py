"""Prefetching: items arrive in order, exceptions are raised in the consumer, the thread ends."""

import threading
import time

import pytest

from regard.training import prefetch
from regard.training.prefetch import QUEUE_SIZE, Prefetcher


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("batches")]


def test_items_arrive_in_order_and_stop_iteration_repeats():
    with Prefetcher(iter(range(20))) as prefetcher:
        assert list(prefetcher) == list(range(20))
        with pytest.raises(StopIteration):
            next(prefetcher)
    assert not threads()


def test_queue_size_bounds_the_items_built():
    built = []

    def items():
        for number in range(100):
            built.append(number)
            yield number

    with Prefetcher(items()) as prefetcher:
        assert not built  # nothing before the first item is taken
        next(prefetcher)
        time.sleep(0.05)
        assert len(built) <= 1 + QUEUE_SIZE  # taken, and queued
    assert not threads()
    assert len(built) <= 1 + QUEUE_SIZE


def test_exception_is_raised_where_the_item_is_taken():
    def items():
        yield 1
        raise KeyError("second")

    with Prefetcher(items()) as prefetcher:
        assert next(prefetcher) == 1
        for _ in range(2):
            with pytest.raises(KeyError, match="second"):
                next(prefetcher)


def test_wait_time_is_measured():
    def slow():
        while True:
            time.sleep(0.02)
            yield 0

    with Prefetcher(slow()) as prefetcher:
        for _ in range(3):
            next(prefetcher)
        assert prefetcher.wait_seconds >= 0.04


def test_next_item_is_built_while_the_current_one_is_used():
    """Three items of 50 ms each, used for 300 ms each: only the first causes a wait."""

    def slow():
        for number in range(3):
            time.sleep(0.05)
            yield number

    with Prefetcher(slow()) as prefetcher:
        next(prefetcher)
        first = prefetcher.wait_seconds
        for _ in range(2):
            time.sleep(0.3)
            next(prefetcher)
        assert prefetcher.wait_seconds - first < first


def test_thread_that_died_for_want_of_memory_is_noticed(monkeypatch):
    """It would be waited for, for ever."""
    monkeypatch.setattr(prefetch, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(prefetch.ThreadPoolExecutor, "_adjust_thread_count", lambda self: None)
    with prefetch.Prefetcher(iter([1])) as items, pytest.raises(MemoryError, match="new thread"):
        next(items)
