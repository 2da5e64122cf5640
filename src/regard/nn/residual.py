"""Residual connections with pre- or post-norm.

pre-norm:   x + f(norm(x))        post-norm:  norm(x + f(x))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from regard.nn.dropout import Dropout

NormPlacement = Literal["pre", "post"]


class Residual(nn.Module):
    """The residual connection around one sublayer of a block, with its norm and dropout."""

    def __init__(self, norm: nn.Module, *, norm_placement: NormPlacement, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.norm_placement = norm_placement
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_placement == "pre":
            return x + self.dropout(sublayer(self.norm(x)))  # type: ignore[no-any-return]
        y: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return y
