"""Memory that is freed stays with the process for what comes next.

By default glibc gives a large block back to the system as soon as it is freed. The next step asks
for it again, and the system clears every page of it first: a tenth of a training step, and half of
one that makes larger tensors. Here blocks of up to 32 MB, the most that glibc lets be asked for,
and 2 GB of what was freed are kept. Where there is no glibc, or where somebody has told it in the
environment what to do, nothing is changed.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them
LARGEST_BLOCK = 32 * 2**20
KEPT = 2**31 - 1
TOLD_BY = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_")


@cache
def keep_freed_memory() -> bool:
    """From now on, in the whole process; says whether it is so by this."""
    if any(name in os.environ for name in TOLD_BY):
        return False
    if "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, another system
        return False
    kept: bool = tell(M_MMAP_THRESHOLD, LARGEST_BLOCK) and tell(M_TRIM_THRESHOLD, KEPT)
    return bool(kept)
