"""Dropout: each value is zeroed with probability p, or kept and divided by 1 − p.

    y = x · keep / (1 − p)                                              Srivastava et al., 2014

torch draws a float per value, which on a CPU takes longer than most layers. Here one random 64-bit
integer decides on four values: p is rounded to a multiple of 1/65,536, and kept values are divided
by exactly the probability of being kept. On other devices, and where torch compiles, its own
dropout is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DRAW_VALUES = 2**16
"Number of values of a draw: 16 bits."


class Dropout(nn.Dropout):
    """torch's layer, with 16-bit draws on the CPU."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p) if self.training else input


def dropout(x: Tensor, p: float) -> Tensor:
    if not p:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    kept = keep_mask(random_draws(x.shape, x.device), p, dtype=x.dtype)
    return x * kept.mul_(1 / keep_probability(p))


def random_draws(shape: Sequence[int], device: torch.device) -> Tensor:
    """Uniform 16-bit integers from torch's generator of the device."""
    if device.type != "cpu":
        low, high = -DRAW_VALUES // 2, DRAW_VALUES // 2
        return torch.randint(low, high, tuple(shape), dtype=torch.int16, device=device)
    count = math.prod(shape)
    four_each = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return four_each.view(torch.int16)[:count].view(*shape)


def keep_mask(draws: Tensor, p: float, *, dtype: torch.dtype) -> Tensor:
    """1 where a draw keeps its value, 0 where it drops it."""
    mask = torch.empty(draws.shape, dtype=dtype, device=draws.device)
    # Floats, not booleans: multiplying by booleans takes four times as long.
    return torch.ge(draws, keep_threshold(p), out=mask)


def keep_threshold(p: float) -> int:
    """The smallest draw that keeps its value."""
    return _dropped_draws(p) - DRAW_VALUES // 2


def keep_probability(p: float) -> float:
    return 1 - _dropped_draws(p) / DRAW_VALUES


def _dropped_draws(p: float) -> int:
    """How many of the draw's values drop; never all, against division by zero."""
    return min(round(p * DRAW_VALUES), DRAW_VALUES - 1)
