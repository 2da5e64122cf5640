"""A linear layer whose products are made by a kernel where there is one.

    y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ dy

torch's own layer is the oracle, and what runs everywhere else. Shapes: in and out widths.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.kernels import linear as kernel


class Linear(nn.Linear):
    """(…,in) -> (…,out)"""

    def forward(self, x: Tensor) -> Tensor:
        if kernel.takes(x, self.weight, self.bias):
            y: Tensor = _ByKernel.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
            return y
        return F.linear(x, self.weight, self.bias)


def is_plain(layer: nn.Module) -> bool:
    """Whether a layer is nothing but its matrix and its bias, and nobody listens to it."""
    return type(layer) in (Linear, nn.Linear) and unheard(layer)


def unheard(module: nn.Module) -> bool:
    """Nobody listens to what goes through it."""
    return not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


class _ByKernel(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows = as_rows(x)
        ctx.save_for_backward(rows if ctx.needs_input_grad[1] else None, weight)
        return kernel.forward(rows, weight, bias).view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        d_x, *others = kernel.backward(as_rows(d_y), rows, weight, wants=ctx.needs_input_grad)
        return (None if d_x is None else d_x.view(*d_y.shape[:-1], -1), *others)


def as_rows(x: Tensor) -> Tensor:
    """(…,w) -> (n,w), as kernels read them"""
    return x.flatten(0, -2).contiguous()
