"""Linear: torch's layer, whose product is made by a kernel where there is one (`ops/linear.py`)."""

from __future__ import annotations

from torch import Tensor, nn

from regard.ops.linear import linear


class Linear(nn.Linear):
    """(…,in) -> (…,out)"""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


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
