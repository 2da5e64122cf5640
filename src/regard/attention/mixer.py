"""Mixer: the module that moves information between positions, one per attention layer.

A kind that consists of scores, normalisation and mix builds an `AttentionFunction`, which
`MultiHeadAttention` wraps; other kinds, such as the synthesizers, build a mixer themselves.
Shapes: b batch, i query, j key, w model width. Masks: True = may attend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from regard.attention.cache import KVCache, LayerCache
from regard.attention.function import AttentionOutput
from regard.attention.masks.mask import Mask
from regard.attention.token_positions import TokenPositions


class Mixer(nn.Module, ABC):
    """(b,i,w) -> (b,i,w), where each position attends to what `mask` allows."""

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        positions: TokenPositions,
        memory: Tensor | None = None,
        cache: LayerCache | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Self-attention of `x`, or cross-attention to `memory` (b,j,w). In self-attention `x` is
        appended to the cache; in cross-attention the cache holds the projections of `memory`, which
        are computed once."""

    def new_cache(self, capacity: int) -> LayerCache:
        """A cache for self-attention over at most `capacity` positions."""
        return KVCache(capacity)

    def new_cross_cache(self, capacity: int) -> LayerCache:
        """A cache for cross-attention. The memory does not grow, so no kind needs a recurrent state
        here."""
        return KVCache(capacity)
