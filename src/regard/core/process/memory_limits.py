"""Memory of this machine that a process may use, as each system reports it."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"Of a container: version 2 and version 1."


@dataclass(frozen=True)
class MemoryLimits:
    """Bytes of main memory; None where the system does not report them."""

    total: int | None
    "Of the machine, or of the container."
    available: int | None
    "Free now, or freed when needed."


def memory_limits() -> MemoryLimits:
    if sys.platform == "win32":
        return _windows_limits()
    total = _physical_bytes()
    limits = [limit for limit in (total, *map(_read_limit, CGROUP_LIMITS)) if limit]
    available = _meminfo("MemAvailable")
    return MemoryLimits(min(limits, default=None), available)


def _physical_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on every system
        return None


def _read_limit(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no container, or "max"
        return None


def _meminfo(name: str) -> int | None:
    """A value of Linux's /proc/meminfo, which counts in KiB."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)


def _windows_limits() -> MemoryLimits:
    class MemoryStatus(ctypes.Structure):
        """MEMORYSTATUSEX of sysinfoapi.h."""

        _fields_ = (
            ("size", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            *((name, ctypes.c_uint64) for name in ("total", "available", *"abcde")),
        )

    status = MemoryStatus(size=ctypes.sizeof(MemoryStatus))
    kernel32 = getattr(ctypes, "windll").kernel32  # noqa: B009 — unknown to mypy elsewhere
    if not kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return MemoryLimits(None, None)
    return MemoryLimits(int(status.total), int(status.available))
