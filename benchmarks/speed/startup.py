"""Startup time of the command line: `regard --help`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.speed.timing import OURS, Ratio, Row


def rows(*, rounds: int = 7) -> list[Row]:
    command = [str(Path(sys.executable).with_name("regard")), "--help"]
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    seconds = sorted(times[1:])  # the first fills the file cache
    return [
        Row(
            "command line",
            "regard --help",
            "s",
            {OURS: median(seconds)},
            Ratio(median(seconds), seconds[0], seconds[-1]),
            "seconds",
            0.3,
            better="lower",
        )
    ]
