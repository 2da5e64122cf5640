"""Products by oneDNN, on the processors where torch's own take longer.

    product(x, W, b) = bend(x Wᵀ + b)

torch makes products of single precision by MKL, which is at home on Intel's processors. oneDNN
comes with torch too, makes its kernels on the spot, and on AMD's processors with AVX-512 takes two
thirds to nine tenths of the time; with AVX2 alone it does not pay, and elsewhere it was not
measured. The choice follows from the processor, so that two runs on one machine agree in every bit.
Shapes: in and out widths.
"""

from __future__ import annotations

import platform
from pathlib import Path

import torch
from torch import Tensor

from regard.attention.bends import STRAIGHT, Bend

AMD = "AuthenticAMD"
OPERATIONS = ("_linear_pointwise", "_reorder_linear_weight")
"Not public: a later torch may be without them."


def _pays_here() -> bool:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if not all(hasattr(torch.ops.mkldnn, name) for name in OPERATIONS):
        return False
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and _is_by_amd()


def _is_by_amd() -> bool:
    try:
        return AMD in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        return AMD in platform.processor()


PAYS = _pays_here()


def takes(*tensors: Tensor) -> bool:
    """Whether a product of these should be made here."""
    if not PAYS or torch.is_autocast_enabled("cpu"):
        return False
    return all(one.is_cpu and one.dtype is torch.float32 for one in tensors)


def product(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, bend: Bend = STRAIGHT
) -> Tensor:
    """(…,in), (out,in) or what `packed` made of it, (out) -> (…,out); no gradient is kept."""
    # The very call that torch.compile makes of a linear layer.
    made: Tensor = torch.ops.mkldnn._linear_pointwise.default(
        x, weight, bias, bend.name, [], bend.algorithm
    )
    return made


def packed(weight: Tensor, *, rows: int) -> Tensor:
    """(out,in), laid out for products with about so many rows."""
    laid_out: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
    return laid_out
