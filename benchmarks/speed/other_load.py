"""CPU time that others took of the machine while something was timed.

Another process of a second costs threads that spin, as torch's do by default, many times as much:
a turn that it fell into says nothing about the work. Linux alone counts what all processes took.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from regard.core.process.cpu import usable_cores

STAT = Path("/proc/stat")
BUSY_FIELDS = (1, 2, 3, 6, 7, 8)
"user, nice, system, irq, softirq, and steal: time of the machine's other tenants."
MAX_FRACTION = 0.05
"Of the cores' time."
TICKS = 2
"Of 10 ms, by which the system's counter may be ahead of this process's own: not others' time."


MAX_TURNS = 6
"Of which one should be undisturbed."
CALM_SECONDS = 0.5
"Pause after a disturbed turn."


class Timed(NamedTuple):
    """A turn, and what others took meanwhile."""

    seconds: float
    others: float
    "CPU seconds of other processes, over those of all cores; 0 where the system does not count."

    @property
    def is_disturbed(self) -> bool:
        return self.others > MAX_FRACTION


def timed(work: Callable[[], object]) -> Timed:
    """Do the work in this process."""
    busy, own = _busy_seconds(), _own_seconds()
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    others = (_busy_seconds() - busy) - (_own_seconds() - own) - TICKS / _ticks_a_second()
    return Timed(seconds, max(0.0, others) / (seconds * usable_cores()))


def undisturbed(turn: Callable[[], Timed]) -> Timed:
    """A turn that other processes disturbed is taken again; of so many in vain, the least disturbed
    counts."""
    turns: list[Timed] = []
    while len(turns) < MAX_TURNS:
        turns.append(turn())
        if not turns[-1].is_disturbed:
            return turns[-1]
        time.sleep(CALM_SECONDS)
    return min(turns, key=lambda turn: turn.others)


def _busy_seconds() -> float:
    """Of all cores since the system was started; 0 where there is no such file."""
    if not STAT.exists():
        return 0.0
    fields = STAT.read_text(encoding="ascii").partition("\n")[0].split()
    return sum(int(fields[index]) for index in BUSY_FIELDS) / _ticks_a_second()


def _ticks_a_second() -> int:
    return os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def _own_seconds() -> float:
    if not STAT.exists():
        return 0.0
    import resource  # not on Windows

    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
