"""Two-layer MLP over many rows, forward and backward (mlp.c).

    z = x Uᵀ + a        h = activation(z)        y = h Wᵀ + b

Shapes: n rows, w model width, hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.ops.cpu import library, linear


class MlpWeights(NamedTuple):
    up: Tensor
    "(hidden,w): U"
    up_bias: Tensor | None
    down: Tensor
    "(w,hidden): W"
    down_bias: Tensor | None


class MlpOutput(NamedTuple):
    y: Tensor
    "(n,w)"
    z: Tensor | None
    "(n,hidden), saved for the backward pass"


class MlpGradients(NamedTuple):
    x: Tensor | None
    up: Tensor | None
    up_bias: Tensor | None
    down: Tensor | None
    down_bias: Tensor | None


def supports(x: Tensor, weights: MlpWeights) -> bool:
    """Whether the kernel takes x (…,w) and these weights; shapes are checked here, not in C."""
    up, up_bias, down, down_bias = weights
    if down.shape != up.shape[::-1]:
        return False
    return linear.supports(x, up, up_bias) and linear.supports_weights(down, down_bias)


def forward(x: Tensor, weights: MlpWeights, *, activation_id: int, save_z: bool) -> MlpOutput:
    """(n,w) -> (n,w)"""
    n, hidden = len(x), len(weights.up)
    output = MlpOutput(torch.empty_like(x), x.new_empty(n, hidden) if save_z else None)
    sizes = _sizes(x, hidden, activation_id)
    library.run("regard_mlp_forward", x, *weights, *output, *sizes)
    return output


def backward(
    d_y: Tensor,
    x: Tensor | None,
    z: Tensor,
    weights: MlpWeights,
    *,
    activation_id: int,
    needs_grad: Sequence[bool],
) -> MlpGradients:
    """(n,w), (n,w) if `up` needs its gradient, (n,hidden) -> the gradients that x and the weights
    need."""
    up, _, down, _ = weights
    fits = up.shape == (z.shape[1], d_y.shape[1]) and down.shape == up.shape[::-1]
    linear.check_unchanged(
        fits and linear.supports_weights(up, None) and linear.supports_weights(down, None)
    )
    x_needs, *weights_need = needs_grad
    gradients = MlpGradients(
        torch.empty_like(d_y) if x_needs else None,
        *(
            torch.zeros_like(weight) if weight is not None and needs else None
            for weight, needs in zip(weights, weights_need, strict=True)
        ),
    )
    sizes = _sizes(d_y, z.shape[1], activation_id)
    library.run("regard_mlp_backward", d_y, x, z, up, down, *gradients, *sizes)
    return gradients


def _sizes(x: Tensor, hidden: int, activation_id: int) -> tuple[int, ...]:
    return (*x.shape, hidden, activation_id, torch.get_num_threads())
