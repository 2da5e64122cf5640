"""Dropout: each number is kept with a chance of 1 − p and divided by it, or it becomes 0.

    y = x · kept / (1 − p)                                              Srivastava et al., 2014

torch draws a float for every number, which on a processor takes longer than most layers do. Here
one random integer of 64 bits decides on four numbers: p is taken to the nearest 1/65,536, and what
is kept is divided by exactly the share that is kept. Elsewhere than on a processor torch's own
dropout is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHANCES = 2**16
"Values that a draw has: 16 bits."


class Dropout(nn.Dropout):
    """torch's, drawn in this way."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p) if self.training else input


def dropout(x: Tensor, p: float) -> Tensor:
    if not p:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    return x * keep_mask(random_draws(x.shape), p, dtype=x.dtype).mul_(1 / keep_probability(p))


def random_draws(shape: Sequence[int]) -> Tensor:
    """Random integers of 16 bits, each value equally likely, from torch's generator."""
    count = math.prod(shape)
    four_each = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return four_each.view(torch.int16)[:count].view(*shape)


def keep_mask(random_draws: Tensor, p: float, *, dtype: torch.dtype) -> Tensor:
    """1 where a draw keeps its number, 0 where it drops it."""
    ones = torch.empty(random_draws.shape, dtype=dtype)
    # Written as numbers at once: to multiply by booleans takes four times as long.
    return torch.ge(random_draws, keep_threshold(p), out=ones)


def keep_threshold(p: float) -> int:
    """The least draw that keeps its number."""
    return _dropped_values(p) - CHANCES // 2


def keep_probability(p: float) -> float:
    return 1 - _dropped_values(p) / CHANCES


def _dropped_values(p: float) -> int:
    """How many of the values drop; never all: then nothing would be left to divide."""
    return min(round(p * CHANCES), CHANCES - 1)
