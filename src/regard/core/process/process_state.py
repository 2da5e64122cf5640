"""What one training could leave behind in a process for the next one there.

A worker of a study trains one recipe after another, and each has to end with the bits that it would
have in a process of its own. Everything here is compared afterwards: where it changed, the process
is not used again.
"""

from __future__ import annotations

import gc
import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.core.process.malloc_tuning import release_freed_memory

SET_BY_TORCH = ("TORCHINDUCTOR_", "TRITON_")
"Variables that torch sets when its compiler is first imported: where that keeps its files."
SUBNORMAL = 1e-40
"In float32; arithmetic that flushes such numbers gives 0."


@dataclass(frozen=True)
class ProcessState:
    """Switches of Python, NumPy and torch that decide how a program computes or what it prints."""

    facts: dict[str, Any]

    @classmethod
    def now(cls) -> ProcessState:
        return cls(dict(_facts()))

    def changes(self) -> list[str]:
        """What is not as it was."""
        return [name for name, value in _facts() if value != self.facts[name]]


def _facts() -> Iterator[tuple[str, Any]]:
    yield "working directory", os.getcwd()  # noqa: PTH109 — compared as it is
    variables = os.environ.items()
    yield "environment", {name: one for name, one in variables if not name.startswith(SET_BY_TORCH)}
    yield "module path", list(sys.path)
    yield "locale", locale.setlocale(locale.LC_ALL)
    signals = [signal.SIGINT, signal.SIGTERM]
    yield "signal handlers", [signal.getsignal(number) for number in signals]
    root = logging.getLogger()
    yield "logging", (root.level, list(root.handlers), root.manager.disable)
    yield "threads", len([one for one in threading.enumerate() if one.is_alive()])
    yield "garbage collection", (gc.isenabled(), gc.get_threshold())
    yield "hooks of Python", (sys.excepthook, sys.getprofile(), sys.gettrace())
    yield "NumPy's errors", np.geterr()
    yield "defaults of torch", (torch.get_default_dtype(), str(torch.get_default_device()))
    yield "gradients", (torch.is_grad_enabled(), torch.is_anomaly_enabled())
    yield "autocast", torch.is_autocast_enabled("cpu")
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield "deterministic algorithms", (deterministic, torch.get_deterministic_debug_mode())
    backends = torch.backends
    yield "precision", (torch.get_float32_matmul_precision(), backends.cuda.matmul.allow_tf32)
    yield "cuDNN", (backends.cudnn.enabled, backends.cudnn.benchmark, backends.cudnn.deterministic)
    yield "oneDNN", backends.mkldnn.enabled
    yield (
        "attention backends",
        (
            backends.cuda.flash_sdp_enabled(),  # type: ignore[no-untyped-call]
            backends.cuda.mem_efficient_sdp_enabled(),  # type: ignore[no-untyped-call]
            backends.cuda.math_sdp_enabled(),  # type: ignore[no-untyped-call]
        ),
    )
    yield "subnormal numbers", float(torch.tensor(SUBNORMAL) * 1) != 0
    modules = vars(nn.modules.module)
    yield (
        "hooks of all modules",
        {name: len(hooks) for name, hooks in modules.items() if name.endswith("_hooks")},
    )


@contextmanager
def as_in_a_fresh_process() -> Iterator[None]:
    """Random generators seeded by chance, each warning shown again, and no memory left over."""
    # What draws without a seed draws something else each time, as it does in another process.
    random.seed()
    np.random.seed()
    torch.seed()
    try:
        with warnings.catch_warnings():  # on entry too: Python forgets which ones it has shown
            yield
    finally:
        gc.collect()
        release_freed_memory()
