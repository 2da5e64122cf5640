"""What a training leaves behind in a process is found, and what it must not is undone."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from regard.core.process.process_state import ProcessState, as_in_a_fresh_process


def hook(module: nn.Module, inputs: object) -> None:
    """Does nothing."""


CHANGES: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "working directory": (lambda: os.chdir(".."), lambda: None),
    "environment": (
        lambda: os.environ.update(REGARD_LEFT="1"),
        lambda: os.environ.pop("REGARD_LEFT"),
    ),
    "signal handlers": (
        lambda: signal.signal(signal.SIGTERM, lambda *_: None),
        lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    ),
    "logging": (lambda: logging.disable(50), lambda: logging.disable(0)),
    "NumPy's errors": (lambda: np.seterr(over="ignore"), lambda: np.seterr(over="warn")),
    "defaults of torch": (
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_dtype(torch.float32),
    ),
    "gradients": (
        lambda: torch.set_grad_enabled(False),
        lambda: torch.set_grad_enabled(True),
    ),
    "deterministic algorithms": (
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.use_deterministic_algorithms(False),
    ),
    "subnormal numbers": (
        lambda: torch.set_flush_denormal(True),
        lambda: torch.set_flush_denormal(False),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found(name: str, tmp_path, monkeypatch) -> None:
    if name == "subnormal numbers" and not torch.set_flush_denormal(False):
        pytest.skip("this CPU has no such switch")
    monkeypatch.chdir(tmp_path)
    change, undo = CHANGES[name]
    before = ProcessState.now()
    assert before.changes() == []
    change()
    try:
        assert before.changes() == [name]
    finally:
        undo()


def test_hooks_of_all_modules_and_threads_are_found() -> None:
    before, end = ProcessState.now(), threading.Event()
    handle = nn.modules.module.register_module_forward_pre_hook(hook)
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert before.changes() == ["threads", "hooks of all modules"]
    finally:
        handle.remove()
        end.set()
        thread.join()
    assert before.changes() == []


def test_warnings_are_shown_again_and_generators_draw_anew() -> None:
    shown, draws = [], []
    warnings_before = list(warnings.filters)
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        with as_in_a_fresh_process():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_, **__: shown.append(str(message))
            for _ in range(3):
                warnings.warn("once a training", stacklevel=1)
            draws.append((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert shown == ["once a training"] * 2
    assert all(first != second for first, second in zip(*draws, strict=True))
    assert warnings.filters == warnings_before
