"""Contestants who do the same work, timed in turn.

The machine's own speed drifts by more than most of what is measured here, so each round times every
contestant once, and what counts is the ratio of two times of the same round. A ratio's spread is
that of the rounds, from the second lowest to the second highest.
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
"Does its work once, and says how many seconds that took."


class Ratio(NamedTuple):
    """A ratio, and between which the rounds found it; one number alone has no spread."""

    value: float
    low: float
    high: float

    @classmethod
    def of_one(cls, value: float) -> Ratio:
        return cls(value, value, value)


@dataclass
class Row:
    """One line of the table: a piece of work, what each contestant took, and the goal."""

    group: str
    work: str
    unit: str
    "Of the figures: ms, tokens/s, MB."
    figures: dict[str, float]
    "By contestant, medians."
    ratio: Ratio
    "How often ours goes into the best other's time, or what `ratio_of` says."
    ratio_of: str
    goal: float
    better: Better = "higher"
    same_work: str = ""
    "What was checked to be the same on all sides, with figures."
    notes: list[str] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        value = self.ratio.value
        return value >= self.goal if self.better == "higher" else value <= self.goal

    def as_dict(self) -> dict[str, Any]:
        value, low, high = self.ratio
        spread = {"ratio": value, "low": low, "high": high}
        return {**asdict(self), **spread, "reached": self.reached}


def times_in_turn(turns: Mapping[str, Turn], *, rounds: int) -> dict[str, list[float]]:
    """Seconds of each contestant, by round; every other round goes the other way."""
    taken: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(rounds):
        for name in list(turns) if number % 2 == 0 else list(reversed(turns)):
            taken[name].append(turns[name]())
    return taken


def turns_here(runs: Mapping[str, Callable[[], object]], *, warm_up: int = 2) -> dict[str, Turn]:
    """Turns in this very process."""
    for run in runs.values():
        for _ in range(warm_up):
            run()
    return {name: partial(_timed, run) for name, run in runs.items()}


def _timed(run: Callable[[], object]) -> float:
    gc.collect()
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def fastest_other(taken: Mapping[str, Sequence[float]]) -> str:
    return min((name for name in taken if name != OURS), key=lambda name: median(taken[name]))


def ratio_by_round(slow: Sequence[float], quick: Sequence[float]) -> Ratio:
    """How often `quick` goes into `slow`: the median over rounds, and the spread."""
    ratios = sorted(a / b for a, b in zip(slow, quick, strict=True))
    cut = 1 if len(ratios) > 3 else 0
    return Ratio(median(ratios), ratios[cut], ratios[-1 - cut])


def added_megabytes(run: Callable[[], object]) -> float:
    """What a run adds to this process at its peak (Linux counts it, and can begin anew)."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _held("VmRSS")
    run()
    return (_held("VmHWM") - before) / 1024


def _held(name: str) -> int:
    """Of this process, in kilobytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in status if line.startswith(name)).split()[1])


def growth_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log seconds against log size, by least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(one) for one in seconds]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - x_mean) ** 2 for x in xs)
