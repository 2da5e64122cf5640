"""Linear layers over many places, forward and back (linear.c).

    y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ dy

Shapes: n places, in and out widths.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.ops.cpu import library

MIN_ROWS = 512
"Places; fewer do not pay for packing the weights."


class LinearGradients(NamedTuple):
    x: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


def supports(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether (…,in), (out,in) and (out) fit together, which a kernel does not look at, and are
    worth it."""
    inputs = weight.shape[1]
    if x.shape[-1] != inputs or not library.fills_vectors(*weight.shape):
        return False
    if x.numel() < MIN_ROWS * max(inputs, 1):
        return False
    return library.supports(x) and is_layer(weight, bias)


def is_layer(weight: Tensor, bias: Tensor | None) -> bool:
    """Whether both are floats that can be read as they lie, and belong together."""
    if bias is not None and bias.shape != weight.shape[:1]:
        return False
    there = [weight] if bias is None else [weight, bias]
    return all(one.is_cpu and one.dtype is torch.float32 and one.is_contiguous() for one in there)


def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(n,in), (out,in), (out) -> (n,out)"""
    (n, inputs), outputs = x.shape, len(weight)
    y = x.new_empty(n, outputs)
    sizes = (n, inputs, outputs, torch.get_num_threads())
    library.run("regard_linear_forward", x, weight, bias, y, *sizes)
    return y


def backward(
    d_y: Tensor, x: Tensor | None, weight: Tensor, *, wants: tuple[bool, bool, bool]
) -> LinearGradients:
    """(n,out), (n,in) if the weight wants its gradient, (out,in) -> the gradients of x, weight and
    bias that are wanted."""
    n, (outputs, inputs) = len(d_y), weight.shape
    refuse_changed(is_layer(weight, None) and d_y.shape[1] == outputs)
    wants_x, wants_weight, wants_bias = wants
    found = LinearGradients(
        d_y.new_empty(n, inputs) if wants_x else None,
        torch.zeros_like(weight) if wants_weight else None,
        weight.new_zeros(outputs) if wants_bias else None,
    )
    sizes = (n, inputs, outputs, torch.get_num_threads())
    library.run("regard_linear_backward", d_y, x, weight, *found, *sizes)
    return found


def refuse_changed(same: bool) -> None:
    """As torch does where a weight was written to between the way there and the way back."""
    if not same:
        raise RuntimeError("a weight has been changed into another since the forward pass")
