"""The network of a block that each place passes on its own: widen, bend, narrow.

    y = W bend(U x + a) + b            gated: y = W (silu(G x) · U x)

A kernel keeps what lies between the two layers in a core's own cache; the layers, one after the
other, are its oracle, and what runs where there is none. Shapes: w model width.
"""

from __future__ import annotations

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention.bends import GELU, GELU_TANH, RELU, Bend
from regard.attention.linear_layer import Linear, as_rows, is_plain
from regard.kernels import feed_forward as kernel

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
            network = kernel.Network(widen.weight, widen.bias, narrow.weight, narrow.bias)
            if kernel.takes(x, network):
                fed: Tensor = _ByKernel.apply(x, *network, self.bend.number)  # type: ignore[no-untyped-call]
                return fed
        y: Tensor = narrow(self.bend.plain(widen(x)))
        return y


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


class _ByKernel(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *given: Any) -> Tensor:
        *weights, bend = given
        rows, network = as_rows(x), kernel.Network(*weights)
        y, z = kernel.forward(rows, network, bend=bend, wants_back=any(ctx.needs_input_grad))
        ctx.save_for_backward(rows if ctx.needs_input_grad[1] else None, z, *network)
        ctx.bend = bend
        return y.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        rows, z, *network = ctx.saved_tensors
        wants = ctx.needs_input_grad[:-1]
        d_x, *others = kernel.backward(
            as_rows(d_y), rows, z, kernel.Network(*network), bend=ctx.bend, wants=wants
        )
        return (None if d_x is None else d_x.view_as(d_y), *others, None)
