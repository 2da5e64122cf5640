"""Fused two-layer MLP over many rows.

    y = W activation(U x + a) + b

The kernel keeps the hidden layer in a core's private cache. The two layers one after the other are
the reference (`nn/mlp.py`), and run wherever no kernel does. Shapes: n rows, w model width.
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
    activation_id: int,
) -> Tensor | None:
    """(…,w) -> (…,w) by weight and bias of both layers; None where no kernel supports them."""
    weights = kernel.MlpWeights(*up, *down)
    if not kernel.supports(x, weights):
        return None
    y: Tensor = _MlpByKernel.apply(x, *weights, activation_id)  # type: ignore[no-untyped-call]
    return y


class _MlpByKernel(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights_and_activation: Any) -> Tensor:
        *tensors, activation_id = weights_and_activation
        rows, weights = as_rows(x), kernel.MlpWeights(*tensors)
        save_z = any(ctx.needs_input_grad)
        y, z = kernel.forward(rows, weights, activation_id=activation_id, save_z=save_z)
        ctx.save_for_backward(rows if ctx.needs_input_grad[1] else None, z, *weights)
        ctx.activation_id = activation_id
        return y.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        rows, z, *weights = ctx.saved_tensors
        d_x, *d_weights = kernel.backward(
            as_rows(d_y),
            rows,
            z,
            kernel.MlpWeights(*weights),
            activation_id=ctx.activation_id,
            needs_grad=ctx.needs_input_grad[:-1],
        )
        return (None if d_x is None else d_x.view_as(d_y), *d_weights, None)
