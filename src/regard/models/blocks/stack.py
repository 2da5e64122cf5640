"""A stack of blocks with its closing norm: the trunk of every Transformer here."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention.cache import ModelCache
from regard.attention.masks.mask import Mask
from regard.attention.token_positions import TokenPositions
from regard.models.blocks.block import Block, Memory
from regard.models.blocks.decode_stack import DecodeStack, can_be_ready, newest_of
from regard.models.blocks.recorder import AttentionRecorder, inside


class Stack(nn.Module):
    def __init__(self, blocks: Sequence[Block], *, norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        positions: TokenPositions,
        source: Memory | None = None,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """(b,t,w) -> (b,t,w)"""
        ready = self.ready_for(x.shape[1], cache) if recorder is None else None
        if ready is not None and cache is not None:
            newest = newest_of(x, mask=mask, positions=positions, source=source)
            return ready(x, newest, cache)[:, None]
        for number, block in enumerate(self.blocks):
            x = block(
                x,
                mask=mask,
                positions=positions,
                source=source,
                cache=None if cache is None else cache.blocks[number],
                recorder=inside(recorder, f"block.{number}"),
            )
        y: Tensor = self.norm(x)
        return y

    def ready_for(self, positions: int, cache: ModelCache | None) -> DecodeStack | None:
        """What reads one more place of rows that are being written, where nothing is to learn."""
        if positions != 1 or cache is None or not cache.length:
            return None
        if self.training or torch.is_grad_enabled():
            return None
        if cache.ready is None and all(map(can_be_ready, self.blocks)):
            cache.ready = DecodeStack([*self.blocks], self.norm)
        return cache.ready if isinstance(cache.ready, DecodeStack) else None

    def new_cache(self, capacity: int, *, source_places: int = 0) -> ModelCache:
        caches = [
            block.new_cache(capacity, source_places=source_places)
            for block in self.blocks
            if isinstance(block, Block)
        ]
        return ModelCache(caches)
