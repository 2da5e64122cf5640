"""The block every Transformer here is made of: attention, then a feed-forward network.

    pre-norm:   x = x + attention(norm(x));  x = x + feed_forward(norm(x))
    post-norm:  x = norm(x + attention(x));  x = norm(x + feed_forward(x))

Shapes: b batch, t place, w model width.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import LayerCache
from regard.attention.mask import Mask
from regard.attention.mixer import Mixer

NormPlace = Literal["pre", "post"]


class FeedForward(nn.Module):
    """Each place on its own: widen, GELU, narrow."""

    def __init__(self, width: int, *, hidden: int) -> None:
        super().__init__()
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.narrow(F.gelu(self.widen(x)))
        return y


class Block(nn.Module):
    def __init__(
        self,
        attention: Mixer,
        feed_forward: nn.Module,
        *,
        width: int,
        norm_place: NormPlace,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = nn.LayerNorm(width)
        self.feed_forward = feed_forward
        self.feed_forward_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.norm_place = norm_place

    def forward(self, x: Tensor, *, mask: Mask, cache: LayerCache | None = None) -> Tensor:
        if self.norm_place == "pre":
            x = x + self._mixed(self.attention_norm(x), mask=mask, cache=cache)
            return x + self._fed(self.feed_forward_norm(x))
        x = self.attention_norm(x + self._mixed(x, mask=mask, cache=cache))
        y: Tensor = self.feed_forward_norm(x + self._fed(x))
        return y

    def _mixed(self, x: Tensor, *, mask: Mask, cache: LayerCache | None) -> Tensor:
        y: Tensor = self.dropout(self.attention(x, mask=mask, cache=cache))
        return y

    def _fed(self, x: Tensor) -> Tensor:
        y: Tensor = self.dropout(self.feed_forward(x))
        return y
