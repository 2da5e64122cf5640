"""What the processor is, as far as choices between kernels rest on it.

They follow from it and from what is installed, never from a stopwatch: two runs on one machine
agree in every bit.
"""

from __future__ import annotations

import platform
from pathlib import Path

import torch

AMD = "AuthenticAMD"


def vectors() -> str:
    """The widest that torch works with here: "AVX2", "AVX512", or something else."""
    return torch.backends.cpu.get_cpu_capability()


def is_by_amd() -> bool:
    try:
        return AMD in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        return AMD in platform.processor()
