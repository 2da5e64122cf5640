"""The network of a block that each place passes on its own: widen, bend, narrow.

    y = W bend(U x + a) + b            gated: y = W (silu(G x) · U x)

A kernel keeps what lies between the two layers in a core's own cache; the layers, one after the
other, are its oracle, and what runs where there is none. Shapes: w model width.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.activations import GELU, GELU_TANH, RELU, Bend
from regard.nn.linear import Linear, is_plain
from regard.ops.mlp import fused_mlp

Activation = Literal["gelu", "gelu-tanh", "relu", "swiglu"]
BENDS: dict[Activation, Bend] = {"gelu": GELU, "gelu-tanh": GELU_TANH, "relu": RELU}


def build_feed_forward(
    activation: Activation, width: int, *, hidden: int, biases: bool
) -> nn.Module:
    if activation == "swiglu":
        return GatedFeedForward(width, hidden=hidden, biases=biases)
    return FeedForward(width, hidden=hidden, bend=BENDS[activation], biases=biases)


class FeedForward(nn.Module):
    def __init__(self, width: int, *, hidden: int, bend: Bend, biases: bool) -> None:
        super().__init__()
        self.bend = bend
        self.widen = Linear(width, hidden, bias=biases)
        self.narrow = Linear(hidden, width, bias=biases)

    def forward(self, x: Tensor) -> Tensor:
        widen, narrow = self.widen, self.narrow
        if is_plain(widen) and is_plain(narrow):
            y = fused_mlp(
                x,
                (widen.weight, widen.bias),
                (narrow.weight, narrow.bias),
                bend=self.bend.number,
            )
            if y is not None:
                return y
        fed: Tensor = narrow(self.bend.plain(widen(x)))
        return fed


class GatedFeedForward(nn.Module):
    """SwiGLU: a second projection decides how much of each hidden value passes (Shazeer, 2020)."""

    def __init__(self, width: int, *, hidden: int, biases: bool) -> None:
        super().__init__()
        self.gate = Linear(width, hidden, bias=biases)
        self.widen = Linear(width, hidden, bias=biases)
        self.narrow = Linear(hidden, width, bias=biases)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.narrow(F.silu(self.gate(x)) * self.widen(x))
        return y
