"""Linear layer over many rows.

    y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ dy

`F.linear` is the reference, and runs wherever no kernel does. Shapes: n rows, in and out widths.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.ops.cpu import linear as kernel


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(…,in), (out,in), (out) -> (…,out)"""
    if kernel.supports(x, weight, bias):
        y: Tensor = _LinearByKernel.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return y
    return F.linear(x, weight, bias)


class _LinearByKernel(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows = as_rows(x)
        ctx.save_for_backward(rows if ctx.needs_input_grad[1] else None, weight)
        return kernel.forward(rows, weight, bias).view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        d_x, d_weight, d_bias = kernel.backward(
            as_rows(d_y), rows, weight, needs_grad=ctx.needs_input_grad
        )
        return (None if d_x is None else d_x.view(*d_y.shape[:-1], -1), d_weight, d_bias)


def as_rows(x: Tensor) -> Tensor:
    """(…,w) -> (n,w), contiguous, as kernels read it"""
    return x.flatten(0, -2).contiguous()
