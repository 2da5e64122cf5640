"""The block every Transformer here is made of: attention, then a feed-forward network.

    pre-norm:   x = x + attention(norm(x));  x = x + feed_forward(norm(x))
    post-norm:  x = norm(x + attention(x));  x = norm(x + feed_forward(x))

A block that writes from a source looks at it in between, in the same manner.
Shapes: b batch, t place, w model width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from regard.attention.cache import BlockCache
from regard.attention.masks.mask import Mask
from regard.attention.mixer import Mixer
from regard.attention.token_positions import Places
from regard.models.blocks.recorder import Recorder
from regard.nn.residual import Residual


class Source(NamedTuple):
    """Another sequence to look at."""

    vectors: Tensor
    "(b,j,w)"
    mask: Mask


class Block(nn.Module):
    def __init__(
        self,
        attention: Mixer,
        feed_forward: nn.Module,
        *,
        source_attention: Mixer | None = None,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = residual()
        self.source_attention = source_attention
        self.source_residual = None if source_attention is None else residual()
        self.feed_forward = feed_forward
        self.feed_forward_residual = residual()

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        places: Places,
        source: Source | None = None,
        cache: BlockCache | None = None,
        recorder: Recorder | None = None,
    ) -> Tensor:
        def look(y: Tensor) -> Tensor:
            attended = self.attention(
                y,
                mask=mask,
                places=places,
                cache=None if cache is None else cache.own,
                want_weights=recorder is not None,
            )
            if recorder is not None:
                recorder.take("attention", attended.weights)
            out: Tensor = attended.out
            return out

        x = self.attention_residual(x, look)
        if self.source_residual is not None and source is not None:
            x = self.source_residual(
                x,
                lambda y: self._look_at(source, y, places=places, cache=cache, recorder=recorder),
            )
        fed: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return fed

    def new_cache(self, capacity: int, *, source_places: int = 0) -> BlockCache:
        source = self.source_attention
        return BlockCache(
            self.attention.new_cache(capacity),
            None if source is None else source.new_source_cache(source_places),
        )

    def _look_at(
        self,
        source: Source,
        x: Tensor,
        *,
        places: Places,
        cache: BlockCache | None,
        recorder: Recorder | None,
    ) -> Tensor:
        assert self.source_attention is not None
        attended = self.source_attention(
            x,
            mask=source.mask,
            places=places,
            memory=source.vectors,
            cache=None if cache is None else cache.source,
            want_weights=recorder is not None,
        )
        if recorder is not None:
            recorder.take("source_attention", attended.weights)
        out: Tensor = attended.out
        return out
