"""Interleaved timing of implementations that do the same work, and ratios between them.

The machine's speed drifts by more than most differences measured here, so each round times every
contestant once, and ratios compare times of the same round. A ratio's range is that over rounds,
from the second lowest to the second highest.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

OURS = "regard"
Better = Literal["higher", "lower"]
Turn = Callable[[], float]
"Does the work once and returns its seconds."


class Ratio(NamedTuple):
    """A ratio and its range over rounds; all equal for a single measurement."""

    value: float
    low: float
    high: float

    @classmethod
    def single(cls, value: float) -> Ratio:
        return cls(value, value, value)


@dataclass
class Row:
    """One line of the table: a workload, the result of each contestant, and the goal."""

    group: str
    work: str
    unit: str
    "Of the medians: ms, tokens/s, MB."
    medians: dict[str, float]
    "By contestant."
    ratio: Ratio
    "The fastest peer's time over ours, or what `ratio_of` says."
    ratio_of: str
    goal: float
    better: Better = "higher"
    same_work: str = ""
    "What was checked to be equal for all contestants."
    notes: list[str] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        value = self.ratio.value
        return value >= self.goal if self.better == "higher" else value <= self.goal

    def as_dict(self) -> dict[str, Any]:
        value, low, high = self.ratio
        ratio = {"ratio": value, "low": low, "high": high}
        return {**asdict(self), **ratio, "reached": self.reached}


def interleaved_times(turns: Mapping[str, Turn], *, rounds: int) -> dict[str, list[float]]:
    """Seconds of each contestant by round; every other round runs in reverse order."""
    times: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(rounds):
        for name in list(turns) if number % 2 == 0 else list(reversed(turns)):
            times[name].append(turns[name]())
    return times


def in_process_turns(
    runs: Mapping[str, Callable[[], object]], *, warm_up: int = 2
) -> dict[str, Turn]:
    """Turns in this process."""
    for run in runs.values():
        for _ in range(warm_up):
            run()
    return {name: partial(_time, run) for name, run in runs.items()}


def _time(run: Callable[[], object]) -> float:
    gc.collect()
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def fastest_peer(times: Mapping[str, Sequence[float]]) -> str:
    return min((name for name in times if name != OURS), key=lambda name: median(times[name]))


def ratio_by_round(numerator: Sequence[float], denominator: Sequence[float]) -> Ratio:
    """Median ratio over rounds, and its range."""
    ratios = sorted(a / b for a, b in zip(numerator, denominator, strict=True))
    cut = 1 if len(ratios) > 3 else 0
    return Ratio(median(ratios), ratios[cut], ratios[-1 - cut])


def added_peak_megabytes(run: Callable[[], object]) -> float:
    """Peak memory a run adds to this process; Linux only, whose peak counter can be reset."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status_kilobytes("VmRSS")
    run()
    return (_status_kilobytes("VmHWM") - before) / 1024


def _status_kilobytes(name: str) -> int:
    """A field of this process's /proc status, in kilobytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in status if line.startswith(name)).split()[1])


def scaling_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log seconds against log size, by least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(s) for s in seconds]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - x_mean) ** 2 for x in xs)
