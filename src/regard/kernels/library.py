"""The compiled kernels: which there are, which pays here, and how they are called.

They are compiled when regard is installed, where there is a C compiler: once for processors with
AVX2, once for those with AVX-512. Both were measured on AMD's; Intel's with AVX-512, for which
torch's own products are written, go without.
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
from torch.utils._python_dispatch import _get_current_dispatch_mode

from regard import processor

VERSION = 2
"Of how kernels are called; as in tiles.h. A library built before a change is not called."
SORTS = {"t": ctypes.c_void_p, "n": ctypes.c_ssize_t, "f": ctypes.c_float}
"Of arguments: where a tensor begins, or None; a number; a float."
Argument = Tensor | int | float | None


class Library:
    """One that was built, for vectors of its own width."""

    def __init__(self, name: str, file: Path) -> None:
        # torch is here already, and with it the threads that kernels share with it.
        self._file = ctypes.CDLL(str(file))
        if self._file.regard_version() != VERSION:
            raise OSError(f"{file} was built for another version")
        self.name = name
        self.lanes: int = self._file.regard_lanes()
        "Floats in a vector: widths have to be multiples of it."
        self.panel: int = self._file.regard_panel()
        "Columns that are packed together."

    @cache  # noqa: B019 — libraries last as long as the process
    def function(self, name: str, sorts: str) -> Callable[..., int]:
        found = self._file[name]
        found.argtypes = [SORTS[sort] for sort in sorts]  # type: ignore[misc]
        return found


def built(name: str) -> Library | None:
    here = Path(__file__).parent
    files = (here / f"_{name}{suffix}" for suffix in EXTENSION_SUFFIXES)
    try:
        return next((Library(name, file) for file in files if file.is_file()), None)
    except (OSError, AttributeError):  # built for another machine, or long ago
        return None


RUNS_ON = {"avx2": ("AVX2", "AVX512"), "avx512": ("AVX512",)}
"Each library, and the processors that know its instructions, as torch calls them."
SWITCH = "REGARD_KERNELS"
"In the environment: off does without them; avx2 or avx512 takes those, to measure them."


def chosen() -> tuple[str, ...]:
    """The libraries that pay here, best first, or the one that was asked for; by name."""
    asked, here = os.environ.get(SWITCH), processor.vectors()
    if asked == "off":
        return ()
    if asked in RUNS_ON:
        return (asked,) if here in RUNS_ON[asked] else ()
    if here == "AVX512":
        return ("avx512", "avx2") if processor.is_by_amd() else ()
    return ("avx2",) if here == "AVX2" else ()


USED = next((one for one in map(built, chosen()) if one is not None), None)


def takes(*tensors: Tensor) -> bool:
    """Whether what is made of these should be made here."""
    if USED is None or torch.is_autocast_enabled("cpu"):
        return False
    if _get_current_dispatch_mode() is not None:  # somebody counts or changes torch's operations
        return False
    return all(one.is_cpu and one.dtype is torch.float32 for one in tensors)


def whole_vectors(*widths: int) -> bool:
    return USED is not None and not any(width % USED.lanes for width in widths)


def up_to_panels(columns: int) -> int:
    """How many there are room for, where they are packed."""
    assert USED is not None
    return -(-columns // USED.panel) * USED.panel


def function(name: str, sorts: str) -> Callable[..., int]:
    """A kernel, to be called with where tensors begin; `sorts` has a letter for each argument. It
    says whether it failed for want of memory."""
    assert USED is not None
    return USED.function(name, sorts)


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
