"""Sums of exponentials without a look for the largest first.

    Σ exp(s) = Σ 2^(s · log₂e)

Powers of 2 are quicker to raise than those of e. The largest score has to be taken off only where
such a sum leaves the middle of what a float can hold, which is seen afterwards.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LOG2_E = math.log2(math.e)


def in_safe_range(sums: Tensor) -> bool:
    """Whether each is as far from 0 as from infinity: nothing that counts was lost in it."""
    kind, (least, most) = torch.finfo(sums.dtype), torch.aminmax(sums)
    return bool(least > kind.tiny**0.5) and bool(most < kind.max**0.5)
