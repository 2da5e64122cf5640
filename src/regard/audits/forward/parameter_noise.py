"""Parameter noise: a model moved off its initial values, where zeros can conceal dependences.

A matrix initialised to zero blocks everything behind it: a leak does not show yet, a parameter
gets no gradient yet. Noise fills all-zero tensors and scales the entries of the others; single
zeros inside a tensor stay, since they may be a mask.
"""

from __future__ import annotations

import torch
from torch import nn

FILL_STD = 0.1
SCALE_STD = 0.1


def has_zero_parameters(module: nn.Module) -> bool:
    """Whether some trained tensor is all zero, other than an ordinary bias."""
    return any(
        _is_zero(parameter) and not name.endswith("bias")
        for name, parameter in module.named_parameters()
    )


def perturb_parameters(module: nn.Module, seed: int = 0) -> None:
    """Add noise to every trained parameter, in place; frozen ones stay."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.requires_grad or not parameter.is_floating_point():
                continue
            noise = torch.randn(parameter.shape, generator=generator).to(parameter)
            if _is_zero(parameter):
                parameter.copy_(FILL_STD * noise)
            else:
                parameter.mul_(1 + SCALE_STD * noise)


def _is_zero(parameter: nn.Parameter) -> bool:
    return parameter.requires_grad and not bool(parameter.detach().any())
