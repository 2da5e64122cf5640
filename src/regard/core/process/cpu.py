"""Capabilities of this machine's CPU that regard's choices depend on.

Choices follow from the CPU and from what is installed, never from a timing: two runs on one machine
agree in every bit.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

AMD = "AuthenticAMD"
CPU_FACTS = Path("/proc/cpuinfo")
"Linux only."


def simd_capability() -> str:
    """The widest SIMD instruction set that torch uses here: "AVX2", "AVX512", or another."""
    return torch.backends.cpu.get_cpu_capability()


def is_amd() -> bool:
    try:
        return AMD in CPU_FACTS.read_text(encoding="utf-8")
    except OSError:  # not Linux
        return AMD in platform.processor()


@cache
def cpu_name() -> str:
    """As its maker calls it: "AMD EPYC 9654 96-Core Processor"."""
    with suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", CPU_FACTS.read_text(encoding="utf-8"), re.M)
        if found:
            return " ".join(found[1].split())
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores this process may run on; all cores where the system has no CPU affinity."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


BF16_TRIAL = """
import sys, torch
from torch.nn.functional import linear
for rows, width in ((200, 16), (64, 64), (1, 256), (512, 512)):
    x = torch.randn(rows, width, device=sys.argv[1], dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(width, width, device=sys.argv[1], dtype=torch.bfloat16)
    linear(x, weight, weight[0]).sum().backward()
    assert x.grad.isfinite().all()
"""


@cache
def bf16_matmul_works(device: str = "cpu") -> bool:
    """Whether bfloat16 matmuls run on `device`. Tried in a child process: on some CPUs that
    report AMX, they end the process with an illegal instruction."""
    if not sys.executable:
        return False
    trial = [sys.executable, "-c", BF16_TRIAL, device]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0
