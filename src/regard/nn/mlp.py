"""The position-wise feed-forward network (MLP) of a block.

    y = W activation(U x + a) + b            gated: y = W (silu(G x) · U x)

A fused kernel keeps the hidden layer in a core's private cache; the layers one after the other are
its oracle, and run where there is no kernel. Shapes: w model width.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.activations import GELU, GELU_TANH, RELU, Activation
from regard.nn.linear import Linear, is_plain_linear
from regard.ops.mlp import fused_mlp

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
        up_proj, down_proj = self.up_proj, self.down_proj
        if is_plain_linear(up_proj) and is_plain_linear(down_proj):
            fused = fused_mlp(
                x,
                (up_proj.weight, up_proj.bias),
                (down_proj.weight, down_proj.bias),
                activation_id=self.activation.kernel_id,
            )
            if fused is not None:
                return fused
        y: Tensor = down_proj(self.activation.reference(up_proj(x)))
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
