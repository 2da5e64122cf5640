"""The compiled kernels: whether they are there, whether they pay, and how they are called.

They are compiled when regard is installed, where there is a C compiler, and written for processors
with AVX2. With AVX-512 torch has other kernels, beside which ours were not measured: they are not
used there. So the choice follows from the processor and the installation, never from a stopwatch:
two runs on one machine agree in every bit.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch
from torch import Tensor

LANES = 8
"Floats in a vector: widths have to be multiples of it."
PANEL = 24
"Columns that are packed together."
VERSION = 1
"Of how kernels are called; as in tiles.h. A library built before a change is not called."
SORTS = {"t": ctypes.c_void_p, "n": ctypes.c_ssize_t, "f": ctypes.c_float}
"Of arguments: where a tensor begins, or None; a number; a float."
Argument = Tensor | int | float | None


def _built() -> ctypes.CDLL | None:
    here = Path(__file__).parent
    files = (here / f"_compiled{suffix}" for suffix in EXTENSION_SUFFIXES)
    try:
        # torch is here already, and with it the threads that kernels share with it.
        built = next((ctypes.CDLL(str(file)) for file in files if file.is_file()), None)
        return built if built is not None and built.regard_version() == VERSION else None
    except (OSError, AttributeError):  # built for another machine, or long ago
        return None


_LIBRARY = _built()
SWITCH = "REGARD_KERNELS"
"In the environment: off does without them, to measure or to find out where a fault lies."


def _pays_here() -> bool:
    if _LIBRARY is None or os.environ.get(SWITCH) == "off":
        return False
    return torch.backends.cpu.get_cpu_capability() == "AVX2"


PAYS = _pays_here()


def takes(*tensors: Tensor) -> bool:
    """Whether what is made of these should be made here."""
    if not PAYS or torch.is_autocast_enabled("cpu"):
        return False
    return all(one.is_cpu and one.dtype is torch.float32 for one in tensors)


@cache
def function(name: str, sorts: str) -> Callable[..., int]:
    """A kernel, to be called with where tensors begin; `sorts` has a letter for each argument. It
    says whether it failed for want of memory."""
    found = _LIBRARY[name]  # type: ignore[index]
    found.argtypes = [SORTS[sort] for sort in sorts]
    return found


def run(name: str, *arguments: Argument) -> None:
    """A kernel, called with tensors."""
    sorts = "".join(map(_sort, arguments))
    given = (one.data_ptr() if isinstance(one, Tensor) else one for one in arguments)
    if function(name, sorts)(*given):
        raise MemoryError(f"no memory for the rooms that {name} works in")


def _sort(argument: Argument) -> str:
    if isinstance(argument, float):
        return "f"
    return "n" if isinstance(argument, int) else "t"
