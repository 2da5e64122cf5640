"""The position-wise feed-forward network (MLP) of a block.

y = W activation(U x + a) + b            gated: y = W (silu(G x) · U x)
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.activations import GELU, GELU_TANH, RELU, Activation
from regard.nn.linear import Linear

ActivationName = Literal["gelu", "gelu-tanh", "relu", "swiglu"]
ACTIVATIONS: dict[ActivationName, Activation] = {
    "gelu": GELU,
    "gelu-tanh": GELU_TANH,
    "relu": RELU,
}


def build_mlp(activation: ActivationName, width: int, *, hidden: int, biases: bool) -> nn.Module:
    if activation == "swiglu":
        return GatedMLP(width, hidden=hidden, biases=biases)
    return MLP(width, hidden=hidden, activation=ACTIVATIONS[activation], biases=biases)


class MLP(nn.Module):
    def __init__(self, width: int, *, hidden: int, activation: Activation, biases: bool) -> None:
        super().__init__()
        self.activation = activation
        self.up_proj = Linear(width, hidden, bias=biases)
        self.down_proj = Linear(hidden, width, bias=biases)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(self.activation.reference(self.up_proj(x)))
        return y


class GatedMLP(nn.Module):
    """SwiGLU: a second projection gates each hidden value (Shazeer, 2020)."""

    def __init__(self, width: int, *, hidden: int, biases: bool) -> None:
        super().__init__()
        self.gate_proj = Linear(width, hidden, bias=biases)
        self.up_proj = Linear(width, hidden, bias=biases)
        self.down_proj = Linear(hidden, width, bias=biases)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return y
