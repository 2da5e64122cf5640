"""Memory of this machine, in bytes; None where the system does not tell."""

from __future__ import annotations

import ctypes
import os
import sys


def total_memory() -> int | None:
    if sys.platform == "win32":
        return _windows_total_memory()
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):  # a name that this system does not have
        return None


def _windows_total_memory() -> int | None:
    class MemoryStatus(ctypes.Structure):
        """MEMORYSTATUSEX."""

        _fields_ = (
            ("size", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            *((name, ctypes.c_uint64) for name in ("total", *"abcdef")),
        )

    status = MemoryStatus(size=ctypes.sizeof(MemoryStatus))
    kernel32 = getattr(ctypes, "windll").kernel32  # noqa: B009 — unknown to mypy elsewhere
    return int(status.total) if kernel32.GlobalMemoryStatusEx(ctypes.byref(status)) else None
