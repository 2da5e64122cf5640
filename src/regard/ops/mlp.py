"""A two-layer feed-forward network (MLP) over many rows.

    y = W activation(U x + a) + b

A kernel keeps the hidden layer in a core's own cache. The two layers one after the other are the
reference (`nn/mlp.py`), and what runs where there is no kernel. Shapes: n rows, w model width.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.ops.cpu import mlp as kernel
from regard.ops.linear import as_rows


def fused_mlp(
    x: Tensor,
    up: tuple[Tensor, Tensor | None],
    down: tuple[Tensor, Tensor | None],
    *,
    bend: int,
) -> Tensor | None:
    """(…,w) -> (…,w) by weight and bias of both layers; None where no kernel takes them."""
    network = kernel.MlpWeights(*up, *down)
    if not kernel.supports(x, network):
        return None
    y: Tensor = _MlpByKernel.apply(x, *network, bend)  # type: ignore[no-untyped-call]
    return y


class _MlpByKernel(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *given: Any) -> Tensor:
        *weights, bend = given
        rows, network = as_rows(x), kernel.MlpWeights(*weights)
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
            as_rows(d_y), rows, z, kernel.MlpWeights(*network), bend=ctx.bend, wants=wants
        )
        return (None if d_x is None else d_x.view_as(d_y), *others, None)
