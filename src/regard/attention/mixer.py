"""A mixer moves information between places: what a kind of attention is inside a model.

Kinds that scores, normaliser and mix describe give a rule and are wrapped in
`MultiHeadAttention`; others, such as the synthesizer, are mixers of their own.
Shapes: b batch, i query, j key, w model width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from regard.attention.attend import AttentionOutput
from regard.attention.cache import KVCache, LayerCache
from regard.attention.masks.mask import Mask
from regard.attention.token_positions import TokenPositions


class Mixer(nn.Module, ABC):
    """(b,i,w) -> (b,i,w), each place having looked where `mask` lets it."""

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        positions: TokenPositions,
        memory: Tensor | None = None,
        cache: LayerCache | None = None,
        want_weights: bool = False,
    ) -> AttentionOutput:
        """`memory` (b,j,w) is another sequence to look at instead of one's own. A cache beside it
        keeps what was made of the memory, so that it is read once; a cache alone takes x in."""

    def new_cache(self, capacity: int) -> LayerCache:
        """Room for the past of one's own row."""
        return KVCache(capacity)

    def new_source_cache(self, capacity: int) -> LayerCache:
        """Room for what is made of a memory: it does not grow, so no kind needs a state for it."""
        return KVCache(capacity)
