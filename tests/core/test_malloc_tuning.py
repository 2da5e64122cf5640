"""Freed memory is kept; a process of its own for each: what glibc was told cannot be taken back."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTES = 2**20
STEPS = f"""
import resource
import numpy as np
from regard.core.malloc_tuning import tune_malloc

def steps(count):
    "Pages that the system had to clear."
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        held = [np.ones(24 * {MEGABYTES}, np.uint8) for _ in range(3)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = tune_malloc()
steps(2)
print(kept, steps(5))
"""


LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
HELD = f"""
from pathlib import Path
import numpy as np
from regard.core.malloc_tuning import tune_malloc

tune_malloc()
held = [np.ones(24 * {MEGABYTES}, np.uint8) for _ in range(3)]
lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("AnonHugePages")))
"""


@pytest.fixture(autouse=True)
def glibc():
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("this C library has no mallopt: freed memory is not kept here")


def said_by(program: str, **environment: str) -> list[str]:
    untold = {name: value for name, value in os.environ.items() if "MALLOC" not in name.upper()}
    command, told = [sys.executable, "-c", program], {**untold, **environment}
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
    return done.stdout.split()


def kept_and_cleared(**environment: str) -> tuple[bool, int]:
    kept, pages = said_by(STEPS, **environment)
    return kept == "True", int(pages)


def test_what_is_freed_is_not_cleared_again():
    kept, pages = kept_and_cleared()
    assert kept
    assert pages < 100  # 24 MB are 6,000 pages, or a dozen huge ones


def test_what_is_asked_for_next_lies_on_large_pages():
    if not LARGE_PAGES.exists() or "[never]" in LARGE_PAGES.read_text(encoding="ascii"):
        pytest.skip("this system has no large pages to ask for")
    [kilobytes] = said_by(HELD)
    assert int(kilobytes) >= 2048  # one of them at least: memory may lie in pieces


@pytest.mark.parametrize(
    "told",
    [
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"},
    ],
)
def test_who_told_glibc_otherwise_is_heard(told):
    kept, pages = kept_and_cleared(**told)
    assert not kept
    assert pages > 100
