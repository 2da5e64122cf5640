"""Regard's step with one kernel switched off: torch's operations take its place, and its alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from benchmarks.speed.ours import our_command_step
from benchmarks.speed.sizes import Size
from benchmarks.speed.timing import OURS
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.kinds.additive import Additive
from regard.attention.paths import kernels
from regard.nn import linear
from regard.ops import cross_entropy
from regard.ops.cpu import library

ADDITIVE = f"{OURS}, additive attention"
WITHOUT = " without "


def _off(*_: Any, **__: Any) -> None:
    """The answer of a kernel that does not take its arguments."""


SWITCHES: dict[str, tuple[Any, str, Any]] = {
    "linear": (linear, "linear", F.linear),
    "logits_pass": (cross_entropy, "supports", _off),
    "dot_attention": (kernels, "supports", _off),
    "additive_attention": (kernels, "supports", _off),
    "all": (library, "LIBRARY", None),
}
"By operator: where the choice is made, and what takes its place there."
PROGRAMS = [
    *(OURS + WITHOUT + kernel for kernel in SWITCHES if kernel != "additive_attention"),
    ADDITIVE,
    ADDITIVE + WITHOUT + "additive_attention",
]


def is_ours(program: str) -> bool:
    return program == OURS or program in PROGRAMS


def baseline_of(program: str) -> str:
    """The same model with all kernels."""
    return program.partition(WITHOUT)[0]


def our_step_without(program: str, size: Size) -> Callable[[], float]:
    """A step of one of PROGRAMS, or of OURS; for a process that runs nothing else."""
    model, _, kernel = program.partition(WITHOUT)
    if kernel:
        setattr(*SWITCHES[kernel])
    changes = {"attention": Additive()} if model == ADDITIVE else {}
    return our_command_step(size, **changes)


def operators_of(step: Callable[[], object]) -> list[str]:
    """Names of the kernels that a step calls, without their backward passes."""
    with FlopCounterMode(display=False) as counter:
        step()
    names = [str(operator) for operator in counter.get_flop_counts()["Global"]]
    prefix = "regard."
    return sorted(
        name.removeprefix(prefix)
        for name in names
        if name.startswith(prefix) and not name.endswith("_backward")
    )
