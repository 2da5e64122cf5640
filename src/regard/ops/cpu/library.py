"""The compiled kernels: which libraries there are, which one is used here, and how it is called.

They are compiled when regard is installed, where there is a C compiler: once for CPUs with AVX2,
once for CPUs with AVX-512. Both were measured on AMD. Intel CPUs with AVX-512, which torch's own
matmuls are tuned for, use those that fuse what torch writes to memory in between: additive
attention, and the cross-entropy of a large vocabulary.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch
from torch import Tensor
from torch._C._autograd import _profiler_enabled
from torch.utils._python_dispatch import (
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
)

from regard.core.process import cpu

VERSION = 5
"Of what the arguments mean; as in kernels.h. A library built for another version is not loaded."
ARGUMENT_TYPES = {"t": ctypes.c_void_p, "n": ctypes.c_ssize_t, "f": ctypes.c_float}
"By letter of a signature: the address of a tensor, or None; an integer; a float."
LETTERS = {"size_t": "n", "ptrdiff_t": "n", "float": "f"}
"Letters of the C types that are not pointers."
Argument = Tensor | int | float | None


class Library:
    """A compiled library of kernels, for one instruction set."""

    def __init__(self, name: str, file: Path) -> None:
        # torch is loaded already, and with it the OpenMP runtime that the kernels share.
        self._file = ctypes.CDLL(str(file))
        if self._file.regard_version() != VERSION:
            raise OSError(f"{file} was built for another version")
        self._file.regard_prototypes.restype = ctypes.c_char_p
        self.name = name
        self.signatures = read_signatures(self._file.regard_prototypes().decode("ascii"))
        "Argument types of each kernel, as it was compiled; never inferred from the values."
        self.lanes: int = self._file.regard_lanes()
        "Floats in a SIMD vector: widths have to be multiples of it."
        self.panel: int = self._file.regard_panel()
        "Columns that are packed together."
        self.block_rows: int = self._file.regard_block_rows()
        "Fewest rows of a linear layer."

    @cache  # noqa: B019 — libraries live as long as the process
    def function(self, name: str) -> Callable[..., int]:
        function = self._file[name]
        function.argtypes = [ARGUMENT_TYPES[letter] for letter in self.signatures[name]]  # type: ignore[misc]
        return function


def read_signatures(prototypes: str) -> dict[str, str]:
    """The letters of each kernel's parameters, from C prototypes without macros."""
    kernels = re.findall(r"int (\w+)\(([^)]*)\);", prototypes)
    return {name: "".join(map(_letter, parameters.split(","))) for name, parameters in kernels}


def _letter(parameter: str) -> str:
    return "t" if "*" in parameter else LETTERS[parameter.split()[0]]


def load_library(name: str) -> Library | None:
    folder = Path(__file__).parent
    files = (folder / f"_{name}{suffix}" for suffix in EXTENSION_SUFFIXES)
    try:
        return next((Library(name, file) for file in files if file.is_file()), None)
    except (OSError, AttributeError, KeyError):  # built for another machine, or outdated
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
        return ("avx512", "avx2") if cpu.is_amd() else ("avx512",)
    return ("avx2",) if capability == "AVX2" else ()


def outruns_matmul() -> bool:
    """Whether the kernels are also faster than torch where all they replace is a matmul, or
    attention by torch's fused one: linear layers, dot-product attention, decoding."""
    requested = os.environ.get(ENVIRONMENT_VARIABLE) in SUPPORTED_ON
    return requested or cpu.is_amd() or cpu.simd_capability() != "AVX512"


LIBRARY = next(
    (loaded for loaded in map(load_library, preferred_libraries()) if loaded is not None), None
)
REPLACES_MATMUL = outruns_matmul()


def description() -> str:
    """What a person is told of the kernels in use."""
    if LIBRARY is None:
        return "of torch alone"
    return LIBRARY.name if REPLACES_MATMUL else f"{LIBRARY.name}, matmuls of torch"


_USED: ContextVar[bool] = ContextVar("kernels are used", default=True)


@contextmanager
def without_kernels() -> Iterator[None]:
    """Within: torch's operations alone, in this thread, whatever the CPU."""
    token = _USED.set(False)
    try:
        yield
    finally:
        _USED.reset(token)


def supports(*tensors: Tensor | None) -> bool:
    """Whether kernels are used here, and can read these tensors."""
    return in_use() and takes(*tensors)


def in_use() -> bool:
    """Whether operators are called here: there is a library, no autocast, and no dispatch mode that
    knows torch's own operations alone."""
    if LIBRARY is None or torch.is_autocast_enabled("cpu"):
        return False
    if torch.compiler.is_compiling():  # which sees operators, and cannot read what follows
        return True
    if not _USED.get():
        return False
    return _get_current_dispatch_mode() is None or all(
        map(_sees_operators, _get_current_dispatch_mode_stack())
    )


def takes(*tensors: Tensor | None) -> bool:
    """Whether kernels can read these tensors: float32 on the CPU; None is an optional one."""
    for x in tensors:  # called for every operator: a generator would take twice as long
        if x is not None and not (x.dtype is torch.float32 and x.is_cpu):
            return False
    return LIBRARY is not None


def is_observed() -> bool:
    """Whether anything sees operators: a dispatch mode, the profiler, `torch.compile`."""
    return (
        torch.compiler.is_compiling()  # first, for it cannot read the others
        or _get_current_dispatch_mode() is not None
        or _profiler_enabled()
    )


def _sees_operators(mode: object) -> bool:
    """torch's own modes (FLOP counter, fake tensors, tracing) treat a kernel like any operator, and
    so do those that say it; others may count on torch's operations, as the one that computes in
    float64."""
    return type(mode).__module__.startswith("torch.") or getattr(mode, "sees_operators", False)


def fills_vectors(*widths: int) -> bool:
    """Whether all widths are multiples of the SIMD vector, and not 0."""
    return LIBRARY is not None and 0 not in widths and not math.gcd(*widths) % LIBRARY.lanes


def fills_blocks(rows: int) -> bool:
    """Whether linear layers of this many rows can be computed."""
    return LIBRARY is not None and rows >= LIBRARY.block_rows


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
    assert LIBRARY is not None
    signature = LIBRARY.signatures[name]
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
