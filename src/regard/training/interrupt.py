"""Ctrl-C asks a training to stop at the end of its step; pressed twice, it stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class InterruptedTraining(Exception):  # noqa: N818 — a wish, not an error
    """The person asked to stop; the state is saved."""


@contextmanager
def stop_on_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Gives a function that tells whether Ctrl-C was pressed."""
    asked = False

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # only the main thread may listen to signals
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
