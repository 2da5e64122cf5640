"""The compiled kernels: which libraries there are, which one is used here, and how it is called.

They are compiled when regard is installed, where there is a C compiler: once for CPUs with AVX2,
once for CPUs with AVX-512. Both were measured on AMD; Intel CPUs with AVX-512, which torch's own
kernels are tuned for, use none.
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

from regard.core.process import cpu

VERSION = 4
"Of the calling conventions; as in tiles.h. A library built for another version is not loaded."
ARGUMENT_TYPES = {"t": ctypes.c_void_p, "n": ctypes.c_ssize_t, "f": ctypes.c_float}
"By letter: the address of a tensor, or None; an integer; a float."
_ATTENTION = 8 * "tnnn" + "tttt" + "n" * 8 + "ffn"
SIGNATURES = {
    "regard_pack": "tt" + "nn",
    "regard_packed_linear": "tttt" + "n" * 5,
    "regard_decode_attention": "ttttt" + "n" * 6 + "fn",
    "regard_linear_forward": "tttt" + "n" * 4,
    "regard_linear_backward": "t" * 6 + "n" * 4,
    "regard_mlp_forward": "t" * 7 + "n" * 5,
    "regard_mlp_backward": "t" * 10 + "n" * 5,
    "regard_cross_entropy": "t" * 7 + "n" * 5,
    "regard_dot_forward": _ATTENTION,
    "regard_dot_backward": _ATTENTION,
    "regard_additive_forward": _ATTENTION,
    "regard_additive_backward": _ATTENTION,
}
"Argument types of each kernel, as its C prototype declares them; never inferred from the values."
Argument = Tensor | int | float | None


class Library:
    """A compiled library of kernels, for one instruction set."""

    def __init__(self, name: str, file: Path) -> None:
        # torch is loaded already, and with it the OpenMP runtime that the kernels share.
        self._file = ctypes.CDLL(str(file))
        if self._file.regard_version() != VERSION:
            raise OSError(f"{file} was built for another version")
        self.name = name
        self.lanes: int = self._file.regard_lanes()
        "Floats in a SIMD vector: widths have to be multiples of it."
        self.panel: int = self._file.regard_panel()
        "Columns that are packed together."

    @cache  # noqa: B019 — libraries live as long as the process
    def function(self, name: str) -> Callable[..., int]:
        function = self._file[name]
        function.argtypes = [ARGUMENT_TYPES[letter] for letter in SIGNATURES[name]]  # type: ignore[misc]
        return function


def load_library(name: str) -> Library | None:
    folder = Path(__file__).parent
    files = (folder / f"_{name}{suffix}" for suffix in EXTENSION_SUFFIXES)
    try:
        return next((Library(name, file) for file in files if file.is_file()), None)
    except (OSError, AttributeError):  # built for another machine, or outdated
        return None


SUPPORTED_ON = {"avx2": ("AVX2", "AVX512"), "avx512": ("AVX512",)}
"Each library, and the CPU capabilities it runs on, as torch names them."
ENVIRONMENT_VARIABLE = "REGARD_KERNELS"
"off: no kernels; avx2 or avx512: that library, for measurements."


def preferred_libraries() -> tuple[str, ...]:
    """Names of the libraries that are fast on this CPU, best first, or the one requested by the
    environment."""
    requested, capability = os.environ.get(ENVIRONMENT_VARIABLE), cpu.simd_capability()
    if requested == "off":
        return ()
    if requested in SUPPORTED_ON:
        return (requested,) if capability in SUPPORTED_ON[requested] else ()
    if capability == "AVX512":
        return ("avx512", "avx2") if cpu.is_amd() else ()
    return ("avx2",) if capability == "AVX2" else ()


LIBRARY = next(
    (loaded for loaded in map(load_library, preferred_libraries()) if loaded is not None), None
)


def supports(*tensors: Tensor) -> bool:
    """Whether kernels take these tensors: float32 on the CPU, no autocast, no dispatch mode."""
    if LIBRARY is None or torch.is_autocast_enabled("cpu"):
        return False
    if _get_current_dispatch_mode() is not None:  # it counts or replaces torch's operations
        return False
    return all(x.is_cpu and x.dtype is torch.float32 for x in tensors)


def fills_vectors(*widths: int) -> bool:
    """Whether all widths are multiples of the SIMD vector."""
    return LIBRARY is not None and not any(width % LIBRARY.lanes for width in widths)


def padded_to_panels(columns: int) -> int:
    """Columns after packing: padded to whole panels."""
    assert LIBRARY is not None
    return -(-columns // LIBRARY.panel) * LIBRARY.panel


def function(name: str) -> Callable[..., int]:
    """A kernel that takes addresses for tensors; it returns nonzero if out of memory."""
    assert LIBRARY is not None
    return LIBRARY.function(name)


def run(name: str, *arguments: Argument) -> None:
    """Call a kernel with tensors, checked against its signature."""
    signature = SIGNATURES[name]
    if len(signature) != len(arguments):
        raise TypeError(f"{name} takes {len(signature)} arguments, not {len(arguments)}")
    if function(name)(*map(_to_c, signature, arguments)):
        raise MemoryError(f"no memory for the workspace of {name}")


def _to_c(letter: str, argument: Argument) -> int | float | None:
    """The argument as C receives it; refused where the signature declares another type."""
    if letter == "t" and (argument is None or isinstance(argument, Tensor)):
        return None if argument is None else argument.data_ptr()
    if isinstance(argument, int) and letter in "nf":
        return argument
    if isinstance(argument, float) and letter == "f":
        return argument
    raise TypeError(f"a {type(argument).__name__} where the signature says {letter!r}")
