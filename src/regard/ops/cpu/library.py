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

from regard.core import cpu

VERSION = 2
"Of how kernels are called; as in tiles.h. A library built before a change is not called."
ARGUMENT_TYPES = {"t": ctypes.c_void_p, "n": ctypes.c_ssize_t, "f": ctypes.c_float}
"By letter: the address of a tensor, or None; a whole number; a float."
_STRIDED = "tnnn"
_ATTENTION = "tt" + "n" * 8 + "ffn"
SIGNATURES = {
    "regard_pack": "tt" + "nn",
    "regard_product": "tttt" + "n" * 5,
    "regard_look": "ttttt" + "n" * 6 + "fn",
    "regard_linear_forward": "tttt" + "n" * 4,
    "regard_linear_backward": "t" * 6 + "n" * 4,
    "regard_feed_forward": "t" * 7 + "n" * 5,
    "regard_feed_forward_backward": "t" * 10 + "n" * 5,
    "regard_loss_pass": "t" * 7 + "n" * 5,
    "regard_dot_forward": _STRIDED * 4 + _ATTENTION,
    "regard_dot_backward": _STRIDED * 8 + _ATTENTION,
    "regard_additive_forward": _STRIDED * 4 + _ATTENTION + "t",
    "regard_additive_backward": _STRIDED * 8 + _ATTENTION + "tt",
}
"Arguments of each kernel as its C prototype declares them, never guessed from what is passed."
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
    def function(self, name: str) -> Callable[..., int]:
        found = self._file[name]
        found.argtypes = [ARGUMENT_TYPES[letter] for letter in SIGNATURES[name]]  # type: ignore[misc]
        return found


def load_library(name: str) -> Library | None:
    here = Path(__file__).parent
    files = (here / f"_{name}{suffix}" for suffix in EXTENSION_SUFFIXES)
    try:
        return next((Library(name, file) for file in files if file.is_file()), None)
    except (OSError, AttributeError):  # built for another machine, or long ago
        return None


RUNS_ON = {"avx2": ("AVX2", "AVX512"), "avx512": ("AVX512",)}
"Each library, and the processors that know its instructions, as torch calls them."
ENVIRONMENT_VARIABLE = "REGARD_KERNELS"
"In the environment: off does without them; avx2 or avx512 takes those, to measure them."


def preferred_libraries() -> tuple[str, ...]:
    """The libraries that pay here, best first, or the one that was asked for; by name."""
    asked, here = os.environ.get(ENVIRONMENT_VARIABLE), cpu.simd_capability()
    if asked == "off":
        return ()
    if asked in RUNS_ON:
        return (asked,) if here in RUNS_ON[asked] else ()
    if here == "AVX512":
        return ("avx512", "avx2") if cpu.is_amd() else ()
    return ("avx2",) if here == "AVX2" else ()


LIBRARY = next((one for one in map(load_library, preferred_libraries()) if one is not None), None)


def supports(*tensors: Tensor) -> bool:
    """Whether what is made of these should be made here."""
    if LIBRARY is None or torch.is_autocast_enabled("cpu"):
        return False
    if _get_current_dispatch_mode() is not None:  # somebody counts or changes torch's operations
        return False
    return all(one.is_cpu and one.dtype is torch.float32 for one in tensors)


def fills_vectors(*widths: int) -> bool:
    return LIBRARY is not None and not any(width % LIBRARY.lanes for width in widths)


def padded_to_panels(columns: int) -> int:
    """How many there are room for, where they are packed."""
    assert LIBRARY is not None
    return -(-columns // LIBRARY.panel) * LIBRARY.panel


def function(name: str) -> Callable[..., int]:
    """A kernel, called with addresses where it takes tensors; nonzero means out of memory."""
    assert LIBRARY is not None
    return LIBRARY.function(name)


def run(name: str, *arguments: Argument) -> None:
    """A kernel, called with tensors."""
    signature = SIGNATURES[name]
    if len(signature) != len(arguments):
        raise TypeError(f"{name} takes {len(signature)} arguments, not {len(arguments)}")
    if function(name)(*map(_passed, signature, arguments)):
        raise MemoryError(f"no memory for the workspace of {name}")


def _passed(letter: str, argument: Argument) -> int | float | None:
    """The argument as C receives it, refused where the signature declares another type."""
    if letter == "t" and (argument is None or isinstance(argument, Tensor)):
        return None if argument is None else argument.data_ptr()
    if isinstance(argument, int) and letter in "nf":
        return argument
    if isinstance(argument, float) and letter == "f":
        return argument
    raise TypeError(f"a {type(argument).__name__} where the signature says {letter!r}")
