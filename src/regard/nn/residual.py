"""Residual connections with pre- or post-norm.

pre-norm:   x + f(norm(x))        post-norm:  norm(x + f(x))
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from regard.nn.dropout import Dropout

NormPlacement = Literal["pre", "post"]


class Residual(nn.Module):
    """The residual connection around one sublayer f of a block, with its norm and dropout.

    A block calls `y = f(residual.sublayer_input(x))`, then `residual(x, y)`.
    """

    def __init__(self, norm: nn.Module, *, norm_placement: NormPlacement, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.norm_placement = norm_placement
        self.dropout = Dropout(dropout)

    def sublayer_input(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.norm_placement == "pre" else x

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The residual stream x after the sublayer's output y."""
        total: Tensor = x + self.dropout(y)
        return total if self.norm_placement == "pre" else self.norm(total)
