"""Freed memory stays with the process. Each case is a child process: malloc tuning is permanent."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTE = 2**20
PAGE_FAULTS = f"""
import resource
import numpy as np
from regard.core.process.malloc_tuning import tune_malloc

def page_faults(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        blocks = [np.ones(24 * {MEGABYTE}, np.uint8) for _ in range(3)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

tuned = tune_malloc()
page_faults(2)
print(tuned, page_faults(5))
"""


TRANSPARENT_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
HUGE_PAGE_KILOBYTES = f"""
from pathlib import Path
import numpy as np
from regard.core.process.malloc_tuning import tune_malloc

tune_malloc()
blocks = [np.ones(24 * {MEGABYTE}, np.uint8) for _ in range(3)]
lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("AnonHugePages")))
"""


@pytest.fixture(autouse=True)
def glibc():
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("this C library has no mallopt: malloc is not tuned here")


def output(program: str, **environment: str) -> list[str]:
    untuned = {name: value for name, value in os.environ.items() if "MALLOC" not in name.upper()}
    command, variables = [sys.executable, "-c", program], {**untuned, **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return done.stdout.split()


def tuned_and_page_faults(**environment: str) -> tuple[bool, int]:
    tuned, faults = output(PAGE_FAULTS, **environment)
    return tuned == "True", int(faults)


def test_freed_blocks_cause_no_page_faults_when_allocated_again():
    tuned, faults = tuned_and_page_faults()
    assert tuned
    assert faults < 100  # 24 MB are 6,000 pages, or a dozen huge ones


def test_heap_is_backed_by_huge_pages():
    setting = TRANSPARENT_HUGE_PAGES
    if not setting.exists() or "[never]" in setting.read_text(encoding="ascii"):
        pytest.skip("this system has no transparent huge pages")
    [kilobytes] = output(HUGE_PAGE_KILOBYTES)
    assert int(kilobytes) >= 2048  # at least one: physical memory may be fragmented


@pytest.mark.parametrize(
    "environment",
    [
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"},
    ],
)
def test_malloc_settings_of_the_environment_win(environment):
    tuned, faults = tuned_and_page_faults(**environment)
    assert not tuned
    assert faults > 100
