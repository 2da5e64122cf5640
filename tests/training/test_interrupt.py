"""Signals: one requests a stop, a second one stops at once, and each has its exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from regard.training.interrupt import (
    STOP_SIGNALS,
    SignalInterrupt,
    exit_code,
    signals_as_interrupt,
    stop_on_signals,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows cannot send these signals")


@pytest.fixture(autouse=True)
def _default_handlers() -> Iterator[None]:
    """Whoever runs the tests may ignore a signal, as nohup does."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_second_signal_stops_at_once(number: int) -> None:
    before = [signal.getsignal(one) for one in STOP_SIGNALS]
    with stop_on_signals() as stop_requested:
        assert not stop_requested()
        os.kill(os.getpid(), number)
        assert stop_requested()
        assert exit_code(stop_requested) == 128 + number
        with pytest.raises(SignalInterrupt) as stopped:
            os.kill(os.getpid(), signal.SIGTERM)
        assert exit_code(stopped.value) == 143
    assert [signal.getsignal(one) for one in STOP_SIGNALS] == before


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_where_nothing_can_be_saved_a_signal_stops_at_once(number: int) -> None:
    with pytest.raises(KeyboardInterrupt) as stopped, signals_as_interrupt():
        os.kill(os.getpid(), number)
    assert exit_code(stopped.value) == 128 + number


def test_pythons_own_interrupt_is_ctrl_c() -> None:
    assert exit_code(KeyboardInterrupt()) == 130


@pytest.mark.parametrize(("ignored", "stops"), [("SIGHUP", False), ("SIGINT", True)])
def test_under_nohup_a_training_outlives_its_terminal(ignored: str, stops: bool) -> None:
    program = f"""
import os, signal
signal.signal(signal.{ignored}, signal.SIG_IGN)  # nohup; a shell in the background
from regard.training.interrupt import stop_on_signals
with stop_on_signals() as stop_requested:
    os.kill(os.getpid(), signal.{ignored})
    print(stop_requested())
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert printed.stdout.split() == [str(stops)], printed.stderr
