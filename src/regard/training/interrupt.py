"""Interrupts: Ctrl-C stops a training at the end of its step, after a checkpoint; pressed twice, at
once. SIGTERM and SIGHUP stop a study like Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class TrainingInterrupt(Exception):  # noqa: N818 — a request, not an error
    """The user requested a stop; the state is saved."""


@contextmanager
def stop_on_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether Ctrl-C was pressed."""
    stop_requested = False

    def request_stop(signum: int, frame: FrameType | None) -> None:
        nonlocal stop_requested
        if stop_requested:
            raise KeyboardInterrupt
        stop_requested = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # only the main thread may set signal handlers
        return
    previous_handler = signal.signal(signal.SIGINT, request_stop)
    try:
        yield lambda: stop_requested
    finally:
        signal.signal(signal.SIGINT, previous_handler)


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # Ignored signals stay ignored: under nohup a study outlives its terminal.
    handled = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
