"""Fused two-layer MLP over many rows, forward and backward (cpu/mlp.c).

    z = x Uᵀ + a        y = activation(z) Wᵀ + b

The kernel keeps the hidden layer in a core's private cache. The two layers one after the other are
the reference (`nn/mlp.py`), and run wherever no kernel does. Shapes: n rows, w model width, hidden.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.ops import linear
from regard.ops.cpu import library

Layer = tuple[Tensor, Tensor | None]
"Weight and bias."


def fused_mlp(x: Tensor, up: Layer, down: Layer, *, activation_id: int) -> Tensor | None:
    """(…,w) -> (…,w) by the layers (hidden,w) and (w,hidden); None where no kernel supports
    them."""
    if down[0].shape != up[0].shape[::-1]:
        return None
    if not (linear.supports(x, *up) and linear.supports_weights(*down)):
        return None
    y: Tensor = _MlpByKernel.apply(x, *up, *down, activation_id)  # type: ignore[no-untyped-call]
    return y


class _MlpByKernel(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights_and_activation: Any) -> Tensor:
        *weights, activation_id = weights_and_activation
        rows, hidden = linear.as_rows(x), len(weights[0])
        y = x.new_empty(x.shape)
        z = x.new_empty(len(rows), hidden) if any(ctx.needs_input_grad) else None
        ctx.sizes = (*rows.shape, hidden, activation_id)
        threads = torch.get_num_threads()
        library.run("regard_mlp_forward", rows, *weights, y, z, *ctx.sizes, threads)
        ctx.save_for_backward(rows if ctx.needs_input_grad[1] else None, z, *weights)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        rows, z, *weights = ctx.saved_tensors
        up, _, down, _ = weights
        fits = up.shape == (z.shape[1], d_y.shape[-1]) and down.shape == up.shape[::-1]
        linear.check_unchanged(
            fits and linear.supports_weights(up, None) and linear.supports_weights(down, None)
        )
        x_needs, *weights_need, _ = ctx.needs_input_grad
        gradients = (
            d_y.new_empty(d_y.shape) if x_needs else None,
            *(
                torch.zeros_like(weight) if weight is not None and needs else None
                for weight, needs in zip(weights, weights_need, strict=True)
            ),
        )
        tensors = (linear.as_rows(d_y), rows, z, up, down, *gradients)
        library.run("regard_mlp_backward", *tensors, *ctx.sizes, torch.get_num_threads())
        return (*gradients, None)
