"""Linear: torch's layer, computed by a kernel where there is one (`ops/linear.py`)."""

from __future__ import annotations

from torch import Tensor, nn

from regard.ops.linear import linear


class Linear(nn.Linear):
    """(…,in) -> (…,out)"""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def is_plain_linear(layer: nn.Module) -> bool:
    """Whether a layer is exactly its weight and bias: no subclass, no hooks."""
    return type(layer) in (Linear, nn.Linear) and has_no_hooks(layer)


def has_no_hooks(module: nn.Module) -> bool:
    return not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )
