"""The block every Transformer here is made of: attention, then a feed-forward network.

    pre-norm:   x = x + attention(norm(x));  x = x + mlp(norm(x))
    post-norm:  x = norm(x + attention(x));  x = norm(x + mlp(x))

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
from regard.attention.token_positions import TokenPositions
from regard.models.blocks.recorder import AttentionRecorder
from regard.nn.residual import Residual


class Memory(NamedTuple):
    """Another sequence to look at."""

    vectors: Tensor
    "(b,j,w)"
    mask: Mask


class Block(nn.Module):
    def __init__(
        self,
        attention: Mixer,
        mlp: nn.Module,
        *,
        cross_attention: Mixer | None = None,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = residual()
        self.cross_attention = cross_attention
        self.cross_residual = None if cross_attention is None else residual()
        self.mlp = mlp
        self.mlp_residual = residual()

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        positions: TokenPositions,
        source: Memory | None = None,
        cache: BlockCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        def look(y: Tensor) -> Tensor:
            attended = self.attention(
                y,
                mask=mask,
                positions=positions,
                cache=None if cache is None else cache.own,
                want_weights=recorder is not None,
            )
            if recorder is not None:
                recorder.take("attention", attended.weights)
            out: Tensor = attended.out
            return out

        x = self.attention_residual(x, look)
        if self.cross_residual is not None and source is not None:
            x = self.cross_residual(
                x,
                lambda y: self._look_at(
                    source, y, positions=positions, cache=cache, recorder=recorder
                ),
            )
        fed: Tensor = self.mlp_residual(x, self.mlp)
        return fed

    def new_cache(self, capacity: int, *, source_places: int = 0) -> BlockCache:
        source = self.cross_attention
        return BlockCache(
            self.attention.new_cache(capacity),
            None if source is None else source.new_source_cache(source_places),
        )

    def _look_at(
        self,
        source: Memory,
        x: Tensor,
        *,
        positions: TokenPositions,
        cache: BlockCache | None,
        recorder: AttentionRecorder | None,
    ) -> Tensor:
        assert self.cross_attention is not None
        attended = self.cross_attention(
            x,
            mask=source.mask,
            positions=positions,
            memory=source.vectors,
            cache=None if cache is None else cache.source,
            want_weights=recorder is not None,
        )
        if recorder is not None:
            recorder.take("cross_attention", attended.weights)
        out: Tensor = attended.out
        return out
