"""Peak memory of this process, as each system reports it, from where it was last reset."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

CLEAR_REFS = Path("/proc/self/clear_refs")
"Of Linux; a 5 written to it sets the peak to the present size."

_peak_before = 0
"Where the system cannot reset it: the peak of what ran before in this process."


def reset_peak_memory() -> None:
    """Count the peak from here."""
    global _peak_before
    try:
        CLEAR_REFS.write_text("5", encoding="ascii")
        _peak_before = 0
    except OSError:  # not Linux, or not allowed
        _peak_before = _system_peak() or 0


def peak_memory_bytes() -> int | None:
    """Peak resident memory of this process since the last reset; None where the system does not
    report it, or where something before the reset needed more."""
    peak = _system_peak()
    return peak if peak is not None and peak > _peak_before else None


def _system_peak() -> int | None:
    if sys.platform == "win32":
        return _windows_peak_bytes()
    try:
        import resource  # not on every system
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _windows_peak_bytes() -> int | None:
    class MemoryCounters(ctypes.Structure):
        """PROCESS_MEMORY_COUNTERS of psapi.h."""

        _fields_ = (
            ("size", ctypes.c_uint32),
            ("page_faults", ctypes.c_uint32),
            *((name, ctypes.c_size_t) for name in ("peak_working_set", *"abcdefg")),
        )

    counters = MemoryCounters(size=ctypes.sizeof(MemoryCounters))
    kernel32 = getattr(ctypes, "windll").kernel32  # noqa: B009 — unknown to mypy elsewhere
    kernel32.GetCurrentProcess.restype = ctypes.c_void_p
    get_memory_info = kernel32.K32GetProcessMemoryInfo
    get_memory_info.argtypes = [ctypes.c_void_p, ctypes.POINTER(MemoryCounters), ctypes.c_uint32]
    if not get_memory_info(kernel32.GetCurrentProcess(), ctypes.byref(counters), counters.size):
        return None
    return int(counters.peak_working_set)
