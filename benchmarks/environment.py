"""The environment of a user's own shell: nothing is timed in another one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from regard.core.process.waiting_threads import SPIN_COUNT, SPINS

PREFIXES = (
    "ATEN_",
    "GLIBC_TUNABLES",
    "GOMP_",
    "KMP_",
    "LD_PRELOAD",
    "MALLOC_",
    "MKL_",
    "OMP_",
    "PYTHON",
    "REGARD_CACHE",
    "REGARD_KERNELS",
    "TORCH",
)
"Variables that change how fast a process computes or starts, or where it finds what was cached."

RESTARTED = "BENCHMARKS_RESTARTED"
MEMORY_KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(10**11)}
"For a peer: glibc retains all freed memory, also blocks larger than those regard retains."


def has_real_time_priority() -> bool:
    """Whether others' work gives way to this process (`chrt -r 1 COMMAND`), on Linux."""
    if not hasattr(os, "sched_getscheduler"):
        return False
    return os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)


def user_environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what was set for speed; `changes` are a contestant's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIXES)}
    return {**kept, **(changes or {})}


def command_environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a worker that computes as the command `regard` does: the command limits spinning before
    torch is loaded, for which a worker is too late."""
    return {SPIN_COUNT: str(SPINS), **(changes or {})}


def restart_in_user_environment(module: str) -> None:
    """Start this process again as `python -m module`, once, if it was given such variables:
    libraries read them when they are loaded, and some set them then."""
    environment = user_environment({RESTARTED: "1"})
    if RESTARTED not in os.environ and len(environment) <= len(os.environ):
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], environment)
