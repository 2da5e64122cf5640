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
    """One part of a block, with its norm and its way past."""

    def __init__(self, norm: nn.Module, *, place: NormPlacement, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.place = place
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        if self.place == "pre":
            return x + self.dropout(part(self.norm(x)))  # type: ignore[no-any-return]
        y: Tensor = self.norm(x + self.dropout(part(x)))
        return y
