"""A model moved off its starting values, where zeros can hide what its wiring allows.

A matrix that starts at zero blocks whatever lies behind it: a leak does not show yet, a parameter
gets no gradient yet. Shaking fills tensors that are all zero and scales the entries of the others;
zeros inside a tensor stay, since they may be a mask.
"""

from __future__ import annotations

import torch
from torch import nn

FILL = 0.1
SCALE = 0.1


def has_blank_parameters(module: nn.Module) -> bool:
    """Whether some trained tensor is all zero, other than an ordinary bias."""
    return any(
        _is_blank(parameter) and not name.endswith("bias")
        for name, parameter in module.named_parameters()
    )


def shake(module: nn.Module, seed: int = 0) -> None:
    """Move every trained parameter a little, in place; frozen ones stay."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.requires_grad or not parameter.is_floating_point():
                continue
            noise = torch.randn(parameter.shape, generator=generator).to(parameter)
            if _is_blank(parameter):
                parameter.copy_(FILL * noise)
            else:
                parameter.mul_(1 + SCALE * noise)


def _is_blank(parameter: nn.Parameter) -> bool:
    return parameter.requires_grad and not bool(parameter.detach().any())
