"""Weight initialisation that depends on the seed and the parameter's name alone.

Two models that share a parameter name initialise it to the same values, whatever else they
contain, so a comparison compares architectures and not random draws. Weights ~ N(0, 0.02²) unless
a family sets another std; projections into the residual stream are divided by √(2 · layers)
(Radford et al., 2019); biases 0; norm scales 1. A module overrides the std by an attribute
`init_std`. Recurrent layers, which have no norm, start uniformly within ±1/√width.
"""

from __future__ import annotations

import hashlib

import torch
from torch import nn

RESIDUAL_PROJECTIONS = ("attention.out.weight", "mlp.down_proj.weight")
INIT_STD = 0.02


@torch.no_grad()
def init_weights(model: nn.Module, *, seed: int, layers: int, std: float = INIT_STD) -> None:
    for name, parameter in model.named_parameters():
        owner = model.get_submodule(name.rpartition(".")[0])
        # Drawn on the CPU so that every device starts from the same bits.
        generator = named_generator(seed, name)
        if isinstance(owner, nn.RNNBase):
            bound = owner.hidden_size**-0.5
            parameter.copy_(
                torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
            )
        elif parameter.ndim < 2:
            parameter.fill_(0.0 if name.endswith("bias") else 1.0)
        else:
            draw = torch.randn(parameter.shape, generator=generator)
            override = getattr(owner, "init_std", None)
            scaled = std / _residual_divisor(name, layers)
            parameter.copy_(draw * (override if isinstance(override, float) else scaled))


def _residual_divisor(name: str, layers: int) -> float:
    """The outputs of residual projections add up over the layers."""
    return float((2 * layers) ** 0.5) if name.endswith(RESIDUAL_PROJECTIONS) else 1.0


def named_generator(seed: int, name: str) -> torch.Generator:
    """An independent generator for each (seed, name)."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
