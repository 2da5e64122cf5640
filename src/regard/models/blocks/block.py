"""The Transformer block: attention, then an MLP, each with a residual connection.

    pre-norm:   x = x + attention(norm(x));  x = x + mlp(norm(x))
    post-norm:  x = norm(x + attention(x));  x = norm(x + mlp(x))

In a decoder with memory, cross-attention stands between the two, with a residual of its own.
Shapes: b batch, t position, w model width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from regard.attention.cache import BlockCache
from regard.attention.masks.mask import Mask
from regard.attention.mixer import Mixer
from regard.attention.token_positions import TokenPositions
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.nn.residual import Residual


class Memory(NamedTuple):
    """The encoder's output, which cross-attention attends to."""

    hidden_states: Tensor
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
        memory: Memory | None = None,
        cache: BlockCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        attended = self.attention(
            self.attention_residual.sublayer_input(x),
            mask=mask,
            positions=positions,
            cache=None if cache is None else cache.self_attention,
            need_weights=recorder is not None,
        )
        x = self.attention_residual(x, attended.out)
        if recorder is not None:
            recorder.record("attention", attended.weights)
        if (
            self.cross_attention is not None
            and self.cross_residual is not None
            and memory is not None
        ):
            attended = self.cross_attention(
                self.cross_residual.sublayer_input(x),
                mask=memory.mask,
                positions=positions,
                memory=memory.hidden_states,
                cache=None if cache is None else cache.cross_attention,
                need_weights=recorder is not None,
            )
            x = self.cross_residual(x, attended.out)
            if recorder is not None:
                recorder.record("cross_attention", attended.weights)
        y: Tensor = self.mlp_residual(x, self.mlp(self.mlp_residual.sublayer_input(x)))
        return y

    def new_cache(self, capacity: int, *, memory_length: int = 0) -> BlockCache:
        cross_attention = self.cross_attention
        return BlockCache(
            self.attention.new_cache(capacity),
            None if cross_attention is None else cross_attention.new_cross_cache(memory_length),
        )
