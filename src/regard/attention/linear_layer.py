"""A linear layer whose products are made by whoever is quickest at them.

    y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ dy

torch's own layer, which is the oracle, is what runs but for many rows where `onednn` pays: there x
and dx are oneDNN's products, and dW, which it takes longer for, stays torch's.
Shapes: in and out widths.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention import onednn

MANY_ROWS = 128
"From here on a product pays for what oneDNN does before it begins."


class Linear(nn.Linear):
    """(…,in) -> (…,out)"""

    def forward(self, x: Tensor) -> Tensor:
        many = x.numel() >= MANY_ROWS * self.in_features
        if many and onednn.takes(x, self.weight):
            y: Tensor = _ByOneDnn.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
            return y
        return F.linear(x, self.weight, self.bias)


class _ByOneDnn(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return onednn.product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        rows = d_y.flatten(0, -2)
        return (
            onednn.product(d_y, weight.T) if wants_x else None,
            torch.mm(rows.T, x.flatten(0, -2)) if wants_weight else None,
            rows.sum(dim=0) if wants_bias else None,
        )
