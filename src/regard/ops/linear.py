"""Linear layer over many rows, forward and backward (cpu/linear.c).

    y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ dy

`F.linear` is the reference, and runs wherever no kernel does. Shapes: n rows, in and out widths.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.ops.cpu import library

MIN_ROWS = 512
"With fewer rows, packing the weights costs more than it saves."


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(…,in), (out,in), (out) -> (…,out)"""
    if supports(x, weight, bias):
        y: Tensor = _LinearByKernel.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return y
    return F.linear(x, weight, bias)


def supports(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether the kernel takes (…,in), (out,in) and (out); shapes are checked here, not in C."""
    inputs = weight.shape[1]
    return (
        x.shape[-1] == inputs
        and library.fills_vectors(*weight.shape)
        and x.numel() >= MIN_ROWS * max(inputs, 1)
        and library.supports(x)
        and supports_weights(weight, bias)
    )


def supports_weights(weight: Tensor, bias: Tensor | None) -> bool:
    """Whether weight and bias are contiguous float32 on the CPU and their shapes agree."""
    if bias is not None and bias.shape != weight.shape[:1]:
        return False
    tensors = [weight] if bias is None else [weight, bias]
    return all(x.is_cpu and x.dtype is torch.float32 and x.is_contiguous() for x in tensors)


class _LinearByKernel(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, (outputs, inputs) = as_rows(x), weight.shape
        y = x.new_empty(*x.shape[:-1], outputs)
        sizes = (len(rows), inputs, outputs, torch.get_num_threads())
        library.run("regard_linear_forward", rows, weight, bias, y, *sizes)
        ctx.save_for_backward(rows if ctx.needs_input_grad[1] else None, weight)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        d_rows, (outputs, inputs) = as_rows(d_y), weight.shape
        check_unchanged(supports_weights(weight, None) and d_rows.shape[1] == outputs)
        x_needs, weight_needs, bias_needs = ctx.needs_input_grad
        gradients = (
            d_y.new_empty(*d_y.shape[:-1], inputs) if x_needs else None,
            torch.zeros_like(weight) if weight_needs else None,
            weight.new_zeros(outputs) if bias_needs else None,
        )
        sizes = (len(d_rows), inputs, outputs, torch.get_num_threads())
        library.run("regard_linear_backward", d_rows, rows, weight, *gradients, *sizes)
        return gradients


def as_rows(x: Tensor) -> Tensor:
    """(…,w) -> (n,w), contiguous, as kernels read it"""
    return x.flatten(0, -2).contiguous()


def check_unchanged(unchanged: bool) -> None:
    """Raise, as torch does, where a weight was modified between forward and backward."""
    if not unchanged:
        raise RuntimeError("a weight has been changed into another since the forward pass")
