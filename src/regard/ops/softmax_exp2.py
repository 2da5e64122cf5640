"""Softmax without subtracting the maximum, by powers of 2.

    Σ exp(s) = Σ 2^(s · log₂e)

exp2 is faster than exp. The maximum has to be subtracted only where such a sum over- or underflows,
which is checked afterwards.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

LOG2_E = math.log2(math.e)


def in_safe_range(sums: Tensor) -> bool:
    """Whether every sum lies between the square roots of the dtype's smallest normal and largest
    value: far enough from both that no term that matters over- or underflowed."""
    if isinstance(sums, FakeTensor):  # it has no values: the usual case
        return True
    least, most = _safe_range(sums.dtype)
    smallest, largest = torch.aminmax(sums)
    return smallest.item() > least and largest.item() < most


@cache
def _safe_range(dtype: torch.dtype) -> tuple[float, float]:
    limits = torch.finfo(dtype)
    return limits.tiny**0.5, limits.max**0.5
