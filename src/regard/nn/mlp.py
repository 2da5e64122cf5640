"""The network of a block that each place passes on its own: widen, bend, narrow.

    y = W bend(U x + a) + b            gated: y = W (silu(G x) · U x)

A kernel keeps what lies between the two layers in a core's own cache; the layers, one after the
other, are its oracle, and what runs where there is none. Shapes: w model width.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.activations import GELU, GELU_TANH, RELU, Activation
from regard.nn.linear import Linear, is_plain
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
    return MLP(width, hidden=hidden, bend=ACTIVATIONS[activation], biases=biases)


class MLP(nn.Module):
    def __init__(self, width: int, *, hidden: int, bend: Activation, biases: bool) -> None:
        super().__init__()
        self.bend = bend
        self.up_proj = Linear(width, hidden, bias=biases)
        self.down_proj = Linear(hidden, width, bias=biases)

    def forward(self, x: Tensor) -> Tensor:
        up_proj, down_proj = self.up_proj, self.down_proj
        if is_plain(up_proj) and is_plain(down_proj):
            y = fused_mlp(
                x,
                (up_proj.weight, up_proj.bias),
                (down_proj.weight, down_proj.bias),
                bend=self.bend.number,
            )
            if y is not None:
                return y
        fed: Tensor = down_proj(self.bend.plain(up_proj(x)))
        return fed


class GatedMLP(nn.Module):
    """SwiGLU: a second projection decides how much of each hidden value passes (Shazeer, 2020)."""

    def __init__(self, width: int, *, hidden: int, biases: bool) -> None:
        super().__init__()
        self.gate_proj = Linear(width, hidden, bias=biases)
        self.up_proj = Linear(width, hidden, bias=biases)
        self.down_proj = Linear(hidden, width, bias=biases)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return y
