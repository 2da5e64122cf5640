"""Memory that is freed stays with the process for what comes next, on large pages.

By default glibc gives a large block back to the system as soon as it is freed. The next step asks
for it again, and the system clears every page of it first: a tenth of a training step. Here blocks
of up to 32 MB, the most that glibc lets be asked for, and 2 GB of what was freed are kept. The next
gigabyte that is asked for lies on pages of 2 MB, which a processor finds sooner (2 % of a step);
those that are never touched take no memory.

Where there is no glibc, or where somebody has told it in the environment what to do, nothing is
changed.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # as malloc.h numbers them
MADV_HUGEPAGE = 14  # as mman.h does
LARGEST_BLOCK = 32 * 2**20
KEPT = 2**31 - 1
ON_LARGE_PAGES = 2**30
LARGE_PAGE = 2 * 2**20
USUAL_PAD = 2**17
TOLD_BY = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_")


@cache
def tune_malloc() -> bool:
    """From now on, in the whole process; says whether it is so by this."""
    if any(name in os.environ for name in TOLD_BY):
        return False
    if "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    libc = _glibc()
    if libc is None:
        return False
    kept = libc.mallopt(M_MMAP_THRESHOLD, LARGEST_BLOCK) and libc.mallopt(M_TRIM_THRESHOLD, KEPT)
    if kept:
        _lay_on_large_pages(libc)
    return bool(kept)


def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
        libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
        libc.free.argtypes = [ctypes.c_void_p]
        libc.sbrk.argtypes, libc.sbrk.restype = [ctypes.c_ssize_t], ctypes.c_void_p
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    except (AttributeError, OSError, TypeError):  # another C library, another system
        return None
    return libc


def _lay_on_large_pages(libc: ctypes.CDLL) -> None:
    """Lets the heap grow by much at once, untouched, and asks for large pages there."""
    begin = libc.sbrk(0)
    libc.mallopt(M_TOP_PAD, ON_LARGE_PAGES)
    libc.free(libc.malloc(LARGEST_BLOCK - LARGE_PAGE))  # or the heap had room enough for it
    libc.mallopt(M_TOP_PAD, USUAL_PAD)
    grown = libc.sbrk(0) - begin
    if grown > LARGE_PAGE:
        to_next_page = -begin % LARGE_PAGE
        libc.madvise(begin + to_next_page, grown - to_next_page, MADV_HUGEPAGE)
