"""Decoding caches: the KV cache of softmax attention, the recurrent state of linear attention.

With a cache every token is processed once. Most kinds of attention keep keys and values of every
position; some keep a state of fixed size. Shapes: b rows, h heads, g key/value heads, j key,
d head width, w model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.core.process.host import is_readable
from regard.ops.cpu import decode


class LayerCache(Protocol):
    """The cache of one attention layer."""

    length: int
    "Cached positions."

    def reorder(self, rows: Tensor) -> None:
        """Row r becomes what row rows[r] was: surviving beams keep their past."""

    def clear(self) -> None: ...


class KVCache:
    """KV cache: keys and values, in buffers allocated once for `capacity` positions."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self._buffers: tuple[Tensor, ...] = ()
        "Keys and values, (b,h,capacity,d) each, from the first positions on."

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append (b,h,i,d) and return all cached keys and values, (b,h,j,d)."""
        if not self._buffers:
            self._buffers = tuple(
                x.new_empty(*x.shape[:2], self.capacity, x.shape[-1]) for x in (k, v)
            )
        new = k.shape[-2]
        for buffer, x in zip(self._buffers, (k, v), strict=True):
            buffer.narrow(2, self.length, new).copy_(x)
        self.length += new
        return self.contents()

    def supports_fused_step(self, qkv: Tensor) -> bool:
        """Whether `fused_step` takes these queries, keys and values (b,h+2g,1,d)."""
        if not self._buffers or self.length >= self.capacity:
            return False
        return decode.supports_decode_attention(qkv, *self._buffers)

    def fused_step(self, qkv: Tensor, *, bias: Tensor | None) -> Tensor:
        """Append one position and attend from it, in one kernel: (b,h+2g,1,d) -> (b,w)."""
        out = decode.decode_attention(qkv, *self._buffers, length=self.length, bias=bias)
        self.length += 1
        return out

    def contents(self) -> tuple[Tensor, Tensor]:
        """All cached keys and values, (b,h,j,d)."""
        keys, values = self._buffers
        return keys.narrow(2, 0, self.length), values.narrow(2, 0, self.length)

    def reorder(self, rows: Tensor) -> None:
        self._buffers = tuple(
            _reorder_rows(buffer, rows, length=self.length) for buffer in self._buffers
        )

    def clear(self) -> None:
        self.length = 0
        self._buffers = ()


def _reorder_rows(buffer: Tensor, rows: Tensor, *, length: int) -> Tensor:
    """The buffer (b,h,j,d) with row rows[r] as row r; only filled positions of rows that move are
    copied."""
    if len(rows) > len(buffer):
        reordered = buffer.new_empty(len(rows), *buffer.shape[1:])
        reordered[:, :, :length] = buffer[:, :, :length].index_select(0, rows)
        return reordered
    if not is_readable(rows):
        return buffer.index_select(0, rows)
    moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(1)
    if len(moved):
        # Gathered before written: two rows may swap.
        gathered = buffer[:, :, :length].index_select(0, rows[moved])
        buffer[:, :, :length].index_copy_(0, moved, gathered)
    return buffer[: len(rows)]


class RecurrentState:
    """Tensors of fixed size that summarise the past; the first dimension is the batch row."""

    def __init__(self) -> None:
        self.length = 0
        self.state: tuple[Tensor, ...] = ()

    def update(self, state: Sequence[Tensor], *, positions: int) -> None:
        """Set the state after `positions` more positions."""
        self.state = tuple(state)
        self.length += positions

    def reorder(self, rows: Tensor) -> None:
        self.state = tuple(tensor[rows] for tensor in self.state)

    def clear(self) -> None:
        self.length = 0
        self.state = ()


@dataclass
class BlockCache:
    """KV cache of one block: of its self-attention and, in a decoder with memory, of its
    cross-attention."""

    self_attention: LayerCache
    cross_attention: LayerCache | None = None


class ModelCache:
    """The caches of all blocks, all of one length; in seq2seq also the encoder's output."""

    def __init__(self, blocks: Sequence[BlockCache]) -> None:
        self.blocks = list(blocks)
        self.memory: Tensor | None = None
        "(b,j,w): the encoder's output."
        self.memory_valid: Tensor | None = None
        "(b,j): which source positions hold a token."
        self.decode_stack: object | None = None
        """The packed `DecodeStack`, once built. It belongs to the cache because both hold for one
        set of weights."""
        self._memory_ids: Tensor | None = None

    @property
    def length(self) -> int:
        return self.blocks[0].self_attention.length

    def reorder(self, rows: Tensor) -> None:
        if self.memory is not None:
            assert self.memory_valid is not None
            shared = self._rows_of_memory(rows, count=len(self.memory))
            self.memory, self.memory_valid = self.memory[shared], self.memory_valid[shared]
            for block in self.blocks:
                if block.cross_attention is not None:
                    block.cross_attention.reorder(shared)
        for block in self.blocks:
            block.self_attention.reorder(rows)

    def clear(self) -> None:
        """Drop the generated tokens; the memory stays."""
        for block in self.blocks:
            block.self_attention.clear()

    def _rows_of_memory(self, rows: Tensor, *, count: int) -> Tensor:
        """Beams of one source share its memory: rows that swap among them stay where they are."""
        new_count = len(rows)
        number = torch.arange(max(count, new_count), device=rows.device)
        before = number[:count] if self._memory_ids is None else self._memory_ids
        self._memory_ids = before[rows]
        if new_count > count:
            return rows
        unchanged = self._memory_ids == before[:new_count]
        return torch.where(unchanged, number[:new_count], rows)
