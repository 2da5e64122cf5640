"""Keys and values of the places already read, so that decoding reads each token once.

Shapes: b rows, h heads, j key, d head width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class LayerCache:
    """One attention layer's keys and values, in room set aside for `capacity` places."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append (b,h,i,d) and return everything so far, (b,h,j,d)."""
        if self._keys is None or self._values is None:
            self._keys, self._values = self._room_for(k), self._room_for(v)
        end = self.length + k.shape[-2]
        self._keys[:, :, self.length : end] = k
        self._values[:, :, self.length : end] = v
        self.length = end
        return self._keys[:, :, :end], self._values[:, :, :end]

    def reorder(self, rows: Tensor) -> None:
        """Row r becomes what row rows[r] was: beams that live on take their past along."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[rows], self._values[rows]

    def _room_for(self, first: Tensor) -> Tensor:
        b, h, _, d = first.shape
        return torch.empty(b, h, self.capacity, d, dtype=first.dtype, device=first.device)


class Cache:
    """The caches of all layers, filled in step."""

    def __init__(self, new_layer: Callable[[], LayerCache], *, layers: int) -> None:
        self.layers = [new_layer() for _ in range(layers)]

    @property
    def length(self) -> int:
        return self.layers[0].length

    def reorder(self, rows: Tensor) -> None:
        for layer in self.layers:
            layer.reorder(rows)
