"""What attention remembers of the places already read, so that decoding reads each token once.

Most kinds keep keys and values of every place; some keep a state of fixed size. Shapes: b rows,
h heads, j key, d head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.ops.cpu import decode


class LayerCache(Protocol):
    """One attention's memory of the past."""

    length: int
    "Places it has taken in."

    def reorder(self, rows: Tensor) -> None:
        """Row r becomes what row rows[r] was: beams that live on take their past along."""

    def clear(self) -> None:
        """Forget everything."""


class KVCache:
    """Keys and values, in room set aside for `capacity` places."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append (b,h,i,d) and return everything so far, (b,h,j,d)."""
        if self._keys is None or self._values is None:
            self._keys, self._values = self._room_for(k), self._room_for(v)
        new = k.shape[-2]
        self._keys.narrow(2, self.length, new).copy_(k)
        self._values.narrow(2, self.length, new).copy_(v)
        self.length += new
        return self.held()

    def takes_newest(self, made: Tensor) -> bool:
        """Whether one place can be taken in and looked from at once."""
        keys, values = self._keys, self._values
        if keys is None or values is None or self.length >= self.capacity:
            return False
        return decode.supports_decode_attention(made, keys, values)

    def look_from_newest(self, made: Tensor, *, added: Tensor | None) -> Tensor:
        """Take in one place and look from it: queries, keys and values (b,h+2g,1,d) -> (b,w)."""
        assert self._keys is not None
        assert self._values is not None
        out = decode.decode_attention(
            made, self._keys, self._values, length=self.length, bias=added
        )
        self.length += 1
        return out

    def held(self) -> tuple[Tensor, Tensor]:
        """Keys and values so far, (b,h,j,d)."""
        assert self._keys is not None
        assert self._values is not None
        return self._keys.narrow(2, 0, self.length), self._values.narrow(2, 0, self.length)

    def reorder(self, rows: Tensor) -> None:
        if self._keys is not None and self._values is not None:
            self._keys, self._values = (
                _moved(room, rows, held=self.length) for room in (self._keys, self._values)
            )

    def clear(self) -> None:
        self.length = 0
        self._keys = self._values = None

    def _room_for(self, first: Tensor) -> Tensor:
        b, h, _, d = first.shape
        return torch.empty(b, h, self.capacity, d, dtype=first.dtype, device=first.device)


def _moved(room: Tensor, rows: Tensor, *, held: int) -> Tensor:
    """The room (b,h,j,d) with row rows[r] as row r; copied is what is held and moves."""
    if len(rows) > len(room):
        moved = room.new_empty(len(rows), *room.shape[1:])
        moved[:, :, :held] = room[:, :, :held].index_select(0, rows)
        return moved
    changed = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(1)
    if len(changed):
        # Taken out before they are put in: two rows may change places.
        taken = room[:, :, :held].index_select(0, rows[changed])
        room[:, :, :held].index_copy_(0, changed, taken)
    return room[: len(rows)]


class RecurrentState:
    """Tensors of fixed size that sum up the past, each with the rows first."""

    def __init__(self) -> None:
        self.length = 0
        self.state: tuple[Tensor, ...] = ()

    def take(self, state: Sequence[Tensor], *, positions: int) -> None:
        """The state after `positions` more places."""
        self.state = tuple(state)
        self.length += positions

    def reorder(self, rows: Tensor) -> None:
        self.state = tuple(tensor[rows] for tensor in self.state)

    def clear(self) -> None:
        self.length = 0
        self.state = ()


@dataclass
class BlockCache:
    """What one block remembers: its own past, and the source it reads, where there is one."""

    own: LayerCache
    source: LayerCache | None = None


class ModelCache:
    """The caches of all blocks, filled in step; rows may carry the source they are written from."""

    def __init__(self, blocks: Sequence[BlockCache]) -> None:
        self.blocks = list(blocks)
        self.source: Tensor | None = None
        "(b, j, w): what the source was read as."
        self.source_valid: Tensor | None = None
        "(b, j): which source places hold a token."
        self.ready: object | None = None
        """What reads one place of each row at a time, once it was made ready. It holds weights, as
        what is held here was made by them."""
        self._source_of: Tensor | None = None

    @property
    def length(self) -> int:
        return self.blocks[0].own.length

    def reorder(self, rows: Tensor) -> None:
        if self.source is not None:
            self._reorder_sources(rows, held=len(self.source))
        for block in self.blocks:
            block.own.reorder(rows)

    def clear(self) -> None:
        """Forget what was written, not what it is written from."""
        for block in self.blocks:
            block.own.clear()

    def _reorder_sources(self, rows: Tensor, *, held: int) -> None:
        """Beams of one prompt have the same source: where they change places, it stays."""
        assert self.source is not None
        assert self.source_valid is not None
        count, number = len(rows), torch.arange(max(held, len(rows)), device=rows.device)
        before = number[:held] if self._source_of is None else self._source_of
        self._source_of = before[rows]
        if count <= held:
            rows = torch.where(self._source_of == before[:count], number[:count], rows)
        for block in self.blocks:
            if block.source is not None:
                block.source.reorder(rows)
        self.source, self.source_valid = self.source[rows], self.source_valid[rows]
