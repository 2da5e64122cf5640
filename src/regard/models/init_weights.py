"""Starting values that depend on the seed and on a parameter's name, and on nothing else.

Two models that share a parameter start it from the same values, whatever else they are made of:
a comparison then compares the parts, not the draws. Weights ~ N(0, 0.02²) unless a family says
otherwise, those that write into the residual stream divided by √(2 · layers) (Radford et al.,
2019); biases 0; norms 1. A module may ask for a draw of its own by `init_std`. Recurrent
layers, which have no norm to lean on, start uniformly within ±1/√width.
"""

from __future__ import annotations

import hashlib

import torch
from torch import nn

RESIDUAL_WRITERS = ("attention.out.weight", "mlp.down_proj.weight")
INIT_STD = 0.02


@torch.no_grad()
def init_weights(model: nn.Module, *, seed: int, layers: int, deviation: float = INIT_STD) -> None:
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
            asked = getattr(owner, "init_std", None)
            own = asked if isinstance(asked, float) else deviation / _divisor(name, layers)
            parameter.copy_(draw * own)


def _divisor(name: str, layers: int) -> float:
    """What writes into the residual stream adds up over the layers."""
    return float((2 * layers) ** 0.5) if name.endswith(RESIDUAL_WRITERS) else 1.0


def named_generator(seed: int, name: str) -> torch.Generator:
    """A generator of its own for everything that has a name."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
