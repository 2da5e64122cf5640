"""Linear layers over many places, forward and back (linear.c).

    y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ dy

Shapes: n places, in and out widths.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels import library

FEWEST = 128
"Places; fewer do not pay for packing the weights."


class Gradients(NamedTuple):
    x: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


def takes(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether (…,in), (out,in) and (out) fit together, which a kernel does not look at, and are
    worth it."""
    inputs = weight.shape[1]
    if x.shape[-1] != inputs or not library.whole_vectors(*weight.shape):
        return False
    if x.numel() < FEWEST * inputs:
        return False
    return library.takes(x) and lie_together(weight, bias)


def lie_together(*weights: Tensor | None) -> bool:
    """Whether those there are can be read as they lie."""
    there = [one for one in weights if one is not None]
    return library.takes(*there) and all(one.is_contiguous() for one in there)


def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(n,in), (out,in), (out) -> (n,out)"""
    (n, inputs), outputs = x.shape, len(weight)
    y = x.new_empty(n, outputs)
    sizes = (n, inputs, outputs, torch.get_num_threads())
    library.run("regard_linear_forward", x, weight, bias, y, *sizes)
    return y


def backward(
    d_y: Tensor, x: Tensor, weight: Tensor, *, wants: tuple[bool, bool, bool]
) -> Gradients:
    """(n,out), (n,in), (out,in) -> the gradients of x, weight and bias that are wanted."""
    (n, inputs), outputs = x.shape, len(weight)
    wants_x, wants_weight, wants_bias = wants
    found = Gradients(
        torch.empty_like(x) if wants_x else None,
        torch.zeros_like(weight) if wants_weight else None,
        weight.new_zeros(outputs) if wants_bias else None,
    )
    sizes = (n, inputs, outputs, torch.get_num_threads())
    library.run("regard_linear_backward", d_y, x, weight, *found, *sizes)
    return found
