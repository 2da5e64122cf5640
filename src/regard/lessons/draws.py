"""Random numbers of lessons and exercises, each a function of its seed."""

from __future__ import annotations

import torch
from torch import Tensor


def standard_normal(*shape: int, seed: int) -> Tensor:
    """Standard normal draws in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def rounded_normal(*shape: int, seed: int, decimals: int = 2) -> Tensor:
    """Standard normal draws, rounded for work on paper."""
    return torch.round(standard_normal(*shape, seed=seed), decimals=decimals)
