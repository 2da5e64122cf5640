"""A stack of blocks with its closing norm: the trunk of every Transformer here."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention.cache import Cache
from regard.attention.masks.mask import Mask
from regard.attention.token_positions import Places
from regard.models.blocks.block import Block, Source
from regard.models.blocks.decode_stack import ReadyStack, can_be_ready, newest_of
from regard.models.blocks.recorder import Recorder, inside


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
        places: Places,
        source: Source | None = None,
        cache: Cache | None = None,
        recorder: Recorder | None = None,
    ) -> Tensor:
        """(b,t,w) -> (b,t,w)"""
        ready = self.ready_for(x.shape[1], cache) if recorder is None else None
        if ready is not None and cache is not None:
            newest = newest_of(x, mask=mask, places=places, source=source)
            return ready(x, newest, cache)[:, None]
        for number, block in enumerate(self.blocks):
            x = block(
                x,
                mask=mask,
                places=places,
                source=source,
                cache=None if cache is None else cache.blocks[number],
                recorder=inside(recorder, f"block.{number}"),
            )
        y: Tensor = self.norm(x)
        return y

    def ready_for(self, places: int, cache: Cache | None) -> ReadyStack | None:
        """What reads one more place of rows that are being written, where nothing is to learn."""
        if places != 1 or cache is None or not cache.length:
            return None
        if self.training or torch.is_grad_enabled():
            return None
        if cache.ready is None and all(map(can_be_ready, self.blocks)):
            cache.ready = ReadyStack([*self.blocks], self.norm)
        return cache.ready if isinstance(cache.ready, ReadyStack) else None

    def new_cache(self, capacity: int, *, source_places: int = 0) -> Cache:
        caches = [
            block.new_cache(capacity, source_places=source_places)
            for block in self.blocks
            if isinstance(block, Block)
        ]
        return Cache(caches)
