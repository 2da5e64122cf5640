"""Linear layer over many rows, forward and backward (linear.c).

    y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ dy

Shapes: n rows, in and out widths.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.ops.cpu import library

MIN_ROWS = 512
"With fewer rows, packing the weights costs more than it saves."


class LinearGradients(NamedTuple):
    x: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


def supports(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether the kernel takes (…,in), (out,in) and (out); shapes are checked here, not in C."""
    inputs = weight.shape[1]
    if x.shape[-1] != inputs or not library.fills_vectors(*weight.shape):
        return False
    if x.numel() < MIN_ROWS * max(inputs, 1):
        return False
    return library.supports(x) and supports_weights(weight, bias)


def supports_weights(weight: Tensor, bias: Tensor | None) -> bool:
    """Whether weight and bias are contiguous float32 on the CPU and their shapes agree."""
    if bias is not None and bias.shape != weight.shape[:1]:
        return False
    tensors = [weight] if bias is None else [weight, bias]
    return all(x.is_cpu and x.dtype is torch.float32 and x.is_contiguous() for x in tensors)


def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(n,in), (out,in), (out) -> (n,out)"""
    (n, inputs), outputs = x.shape, len(weight)
    y = x.new_empty(n, outputs)
    sizes = (n, inputs, outputs, torch.get_num_threads())
    library.run("regard_linear_forward", x, weight, bias, y, *sizes)
    return y


def backward(
    d_y: Tensor, x: Tensor | None, weight: Tensor, *, needs_grad: tuple[bool, bool, bool]
) -> LinearGradients:
    """(n,out), (n,in) if the weight needs its gradient, (out,in) -> the gradients that x, weight
    and bias need."""
    n, (outputs, inputs) = len(d_y), weight.shape
    check_unchanged(supports_weights(weight, None) and d_y.shape[1] == outputs)
    x_needs, weight_needs, bias_needs = needs_grad
    gradients = LinearGradients(
        d_y.new_empty(n, inputs) if x_needs else None,
        torch.zeros_like(weight) if weight_needs else None,
        weight.new_zeros(outputs) if bias_needs else None,
    )
    sizes = (n, inputs, outputs, torch.get_num_threads())
    library.run("regard_linear_backward", d_y, x, weight, *gradients, *sizes)
    return gradients


def check_unchanged(unchanged: bool) -> None:
    """Raise, as torch does, where a weight was modified between forward and backward."""
    if not unchanged:
        raise RuntimeError("a weight has been changed into another since the forward pass")
