"""The Batch type: examples padded to the longest, as tensors.

    [4,7,9,15,23,18] [2,8,10] [3,13,2,8]  →  4  7  9 15 23 18
                                             2  8 10  0  0  0
                                             3 13  2  8  0  0

Shapes: b rows, t positions. `valid`: True = a real token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Example:
    """One row after its objective; all arrays have one length."""

    inputs: Ints
    targets: Ints
    weights: NDArray[np.float32]
    "What each target counts in the loss; 0 where there is nothing to predict."
    segments: Ints | None = None
    source: Ints | None = None
    "What is read before anything is written, of a length of its own."
    labels: NDArray[Any] | None = None
    "What is to be told of the row as a whole: a class, the ends of a span; of a length of its own."
    modalities: Ints | None = None
    "What stands at each place: 0 a word, 1 a patch."
    patches: NDArray[np.float32] | None = None
    "(p,k): the numbers of each patch, in the order of their places."
    smoothing: float = 0.0
    "Share of each target that goes to all tokens alike while it is learnt; never while measured."


@dataclass(frozen=True)
class Batch:
    """Rows padded to the longest."""

    ids: torch.Tensor
    "(b,t) int64"
    targets: torch.Tensor
    "(b,t) int64"
    weights: torch.Tensor
    "(b,t) float32, 0 on padding"
    valid: torch.Tensor
    "(b,t) bool, True = a real token"
    segments: torch.Tensor | None
    "(b,t) int64, 0 on padding"
    rows: tuple[int, ...]
    "The row numbers, so that an error can name them."
    source: torch.Tensor | None = None
    "(b,s) int64: what is read before anything is written"
    source_valid: torch.Tensor | None = None
    "(b,s) bool, True = a real token"
    modalities: torch.Tensor | None = None
    "(b,t) int64: words, patches, … by number"
    patches: torch.Tensor | None = None
    "(b,p,k) float32: the numbers of each row's patches, in the order of their places"
    labels: torch.Tensor | None = None
    "(b,k): what is to be told of each row as a whole; −1 where a row has fewer"
    smoothing: float = 0.0
    "Share of each target that goes to all tokens alike while it is learnt."

    @property
    def tokens(self) -> int:
        """Tokens that are read."""
        sources = 0 if self.source_valid is None else int(self.source_valid.sum())
        return int(self.valid.sum()) + sources

    @property
    def padding_waste(self) -> float:
        """The share of places that hold no token."""
        return 1 - float(self.valid.float().mean())

    def to(self, device: torch.device | str) -> Batch:
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def split(self, parts: int) -> list[Batch]:
        """At most `parts` micro-batches of consecutive rows, none of them empty."""
        edges = np.linspace(0, len(self.rows), parts + 1).round().astype(int)
        return [self._slice(slice(*edge)) for edge in pairwise(edges) if edge[0] < edge[1]]

    def _slice(self, rows: slice) -> Batch:
        return replace(self._each(lambda tensor: tensor[rows]), rows=self.rows[rows])

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
        tensors: dict[str, Any] = {
            field.name: change(value)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), torch.Tensor)
        }
        return replace(self, **tensors)


def pad(rows: Sequence[ArrayLike], pad_id: float) -> NDArray[Any]:
    """Rows of unequal length as one array, as wide as the longest; the rest is `pad_id`."""
    arrays = [np.asarray(row) for row in rows]
    lengths = np.array([len(array) for array in arrays])
    padded = np.full((len(arrays), lengths.max()), pad_id, dtype=np.result_type(*arrays))
    padded[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(arrays)
    return padded


def collate(examples: Sequence[Example], *, pad_id: int, rows: Sequence[int]) -> Batch:
    """Examples as one batch; `rows` are their numbers."""
    segments = [example.segments for example in examples if example.segments is not None]
    sources = [example.source for example in examples if example.source is not None]
    labels = [example.labels for example in examples if example.labels is not None]
    modalities = [example.modalities for example in examples if example.modalities is not None]
    patches = [example.patches for example in examples if example.patches is not None]
    for what, some in (
        ("segments", segments),
        ("a source", sources),
        ("labels", labels),
        ("modalities", modalities),
        ("patches", patches),
    ):
        if some and len(some) < len(examples):
            raise ValueError(f"some rows of this batch have {what} and some have none")
    ones = [np.ones(len(example.inputs), dtype=np.bool_) for example in examples]
    source_ones = [np.ones(len(source), dtype=np.bool_) for source in sources]
    return Batch(
        ids=torch.from_numpy(pad([example.inputs for example in examples], pad_id)),
        targets=torch.from_numpy(pad([example.targets for example in examples], pad_id)),
        weights=torch.from_numpy(pad([example.weights for example in examples], 0)),
        valid=torch.from_numpy(pad(ones, 0)),
        segments=torch.from_numpy(pad(segments, 0)) if segments else None,
        source=torch.from_numpy(pad(sources, pad_id)) if sources else None,
        source_valid=torch.from_numpy(pad(source_ones, 0)) if sources else None,
        modalities=torch.from_numpy(pad(modalities, 0)) if modalities else None,
        patches=torch.from_numpy(np.stack(patches)) if patches else None,
        labels=torch.from_numpy(pad(labels, -1)) if labels else None,
        smoothing=examples[0].smoothing,
        rows=tuple(int(row) for row in rows),
    )
