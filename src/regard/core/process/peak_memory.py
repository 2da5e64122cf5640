"""Peak memory of this process, as each system reports it."""

from __future__ import annotations

import ctypes
import sys


def peak_memory_bytes() -> int | None:
    """Peak resident memory of this process so far; None where the system does not report it."""
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
