"""Signals that stop: Ctrl-C, SIGTERM (docker stop, Slurm), SIGHUP (a closed terminal), and on
Windows Ctrl-Break, the only one that a process of another group can be sent.

A training stops at the end of its step, after a checkpoint; upon a second signal at once. Whatever
else runs stops at once. The exit code is that of a process which the signal killed: 130, 143, 129.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
]


_received: list[int] = []


def signal_received() -> bool:
    """Whether any signal has asked this process to stop; a thread may ask."""
    return bool(_received)


class SignalInterrupt(KeyboardInterrupt):
    """A signal requested to stop at once."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class TrainingInterrupt(Exception):  # noqa: N818 — a request, not an error
    """A signal requested to stop; the state is saved."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


def exit_code(stopped: BaseException | StopRequest) -> int:
    """The exit code that tells which signal it was; Python's own interrupt is Ctrl-C's."""
    return 128 + getattr(stopped, "number", signal.SIGINT)


class StopRequest:
    """Whether a signal has requested a stop, and which; `second` is what another one does."""

    def __init__(self, second: Callable[[int], None]) -> None:
        self.number = 0
        self.second = second

    def __call__(self) -> bool:
        return self.number > 0

    def receive(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self.second(number)
        else:
            self.number = number


def stop_at_once(number: int) -> None:
    raise SignalInterrupt(number)


def keep_stopping(number: int) -> None:
    """Where a launcher passes on the signal that this process has had already."""


@contextmanager
def stop_on_signals(second: Callable[[int], None] = stop_at_once) -> Iterator[StopRequest]:
    """Signals stop whoever asks the request that is yielded; a second one stops at once."""
    request = StopRequest(second)
    with _handled(request.receive):
        yield request


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Signals raise SignalInterrupt, which is a KeyboardInterrupt."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SignalInterrupt(number)

    with _handled(stop):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return

    def receive(number: int, frame: FrameType | None) -> None:
        _received.append(number)
        handler(number, frame)

    before = {number: signal.signal(number, receive) for number in STOP_SIGNALS if _counts(number)}
    try:
        yield
    finally:
        for number, previous in before.items():
            if previous is not None:  # None: set by a library in C, which Python cannot restore
                signal.signal(number, previous)


def _counts(number: int) -> bool:
    """Ignored signals stay ignored, as under nohup; but shells ignore Ctrl-C's in the background,
    and a study interrupts its trainings by it."""
    return number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN
