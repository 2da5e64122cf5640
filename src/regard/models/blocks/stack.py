"""A stack of blocks with its final norm: the trunk of every Transformer here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from regard.attention.cache import ModelCache
from regard.attention.masks.mask import Mask
from regard.attention.token_positions import TokenPositions
from regard.models.blocks.attention_recorder import AttentionRecorder, scoped
from regard.models.blocks.block import Block, Memory
from regard.models.blocks.decode_stack import (
    DecodeStack,
    build_decode_step,
    supports_decode_block,
)


class Stack(nn.Module):
    def __init__(self, blocks: Sequence[Block], *, norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.training_blocks: Sequence[Callable[..., Tensor]] | None = None
        "What training steps call instead of the blocks: the same, compiled."

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        positions: TokenPositions,
        memory: Memory | None = None,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """(b,t,w) -> (b,t,w)"""
        decode_stack = self.decode_stack(x.shape[1], cache) if recorder is None else None
        if decode_stack is not None and cache is not None:
            step = build_decode_step(x, mask=mask, positions=positions, memory=memory)
            return decode_stack(x, step, cache)[:, None]
        blocks: Iterable[Callable[..., Tensor]] = self.blocks
        if self.training_blocks is not None and self.training and (cache, recorder) == (None, None):
            blocks = self.training_blocks
        for number, block in enumerate(blocks):
            x = block(
                x,
                mask=mask,
                positions=positions,
                memory=memory,
                cache=None if cache is None else cache.blocks[number],
                recorder=scoped(recorder, f"block.{number}"),
            )
        y: Tensor = self.norm(x)
        return y

    def decode_stack(self, length: int, cache: ModelCache | None) -> DecodeStack | None:
        """The specialised stack for a decode step: one new position, a filled cache, no gradients;
        None otherwise. The cache keeps it for the steps that follow."""
        if length != 1 or cache is None or not cache.length:
            return None
        if self.training or torch.is_grad_enabled():
            return None
        if cache.decode_stack is None and all(map(supports_decode_block, self.blocks)):
            cache.decode_stack = DecodeStack([*self.blocks], self.norm)
        return cache.decode_stack if isinstance(cache.decode_stack, DecodeStack) else None

    def new_cache(self, capacity: int, *, memory_length: int = 0) -> ModelCache:
        caches = [
            block.new_cache(capacity, memory_length=memory_length)
            for block in self.blocks
            if isinstance(block, Block)
        ]
        return ModelCache(caches)
