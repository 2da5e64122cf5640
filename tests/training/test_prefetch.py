"""Things made ahead come in order, their problems too, and the thread ends."""

import threading
import time

import pytest

from regard.training.prefetch import AHEAD, Prefetcher


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "batches"]


def test_all_come_in_order_and_then_it_ends_for_good():
    with Prefetcher(iter(range(20))) as ahead:
        assert list(ahead) == list(range(20))
        with pytest.raises(StopIteration):
            next(ahead)
    assert not threads()


def test_no_more_is_made_than_asked():
    made = []

    def items():
        for number in range(100):
            made.append(number)
            yield number

    with Prefetcher(items()) as ahead:
        assert not made  # nothing before the first is asked for
        next(ahead)
        time.sleep(0.05)
        assert len(made) <= 1 + AHEAD + 1  # taken, ready, and one that waits for room
    assert not threads()
    assert len(made) <= 1 + 2 * AHEAD + 2


def test_a_problem_is_raised_where_the_item_is_asked_for():
    def items():
        yield 1
        raise KeyError("second")

    with Prefetcher(items()) as ahead:
        assert next(ahead) == 1
        for _ in range(2):
            with pytest.raises(KeyError, match="second"):
                next(ahead)


def test_what_is_waited_for_is_counted():
    def slow():
        while True:
            time.sleep(0.02)
            yield 0

    with Prefetcher(slow()) as ahead:
        for _ in range(3):
            next(ahead)
        assert ahead.waited >= 0.04


def test_it_is_made_while_the_last_one_is_used():
    """Three of 50 ms each, used for 60 ms each: only the first is waited for."""

    def slow():
        for number in range(3):
            time.sleep(0.05)
            yield number

    with Prefetcher(slow()) as ahead:
        next(ahead)
        first = ahead.waited
        for _ in range(2):
            time.sleep(0.3)
            next(ahead)
        assert ahead.waited - first < first
