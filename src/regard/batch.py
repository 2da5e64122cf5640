"""`Batch`: examples collated into tensors, padded to the longest; `Example`: one row of it.

    [4,7,9,15,23,18] [2,8,10] [3,13,2,8]  →  4  7  9 15 23 18
                                             2  8 10  0  0  0
                                             3 13  2  8  0  0

An accelerator computes what was queued while Python goes on; reading a value back waits for all of
it. What a step needs to know of a batch is therefore read where the batch is made, and carried.

Shapes: b batch size (rows), t length, n positions with a loss weight. `valid`: True = a real token,
False = padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from regard.core.process.host import copy_to

Ints = NDArray[np.int64]
Padding = Literal["none", "right", "anywhere"]
"Where rows are padded."


@dataclass(frozen=True)
class Example:
    """One row as its objective built it; arrays have the same length unless said otherwise."""

    inputs: Ints
    targets: Ints
    weights: NDArray[np.float32]
    "Loss weight of each target; 0 where there is nothing to predict."
    segments: Ints | None = None
    source: Ints | None = None
    "Source ids of a seq2seq model (encoder input); its length is independent."
    labels: NDArray[Any] | None = None
    "Labels of the whole row: a class, start and end of a span; its length is independent."
    modalities: Ints | None = None
    "Modality of each position: 0 text, 1 image patch."
    patches: NDArray[np.float32] | None = None
    "(p,k): the values of each patch, in order of position."
    smoothing: float = 0.0
    "Label smoothing in training; never in evaluation."


class RowLayout(NamedTuple):
    """Where the tokens of padded rows are."""

    lengths: tuple[int, ...]
    "Tokens of each row."
    padding: Padding

    @classmethod
    def of(cls, valid: torch.Tensor) -> RowLayout:
        """Read from (b,t), True = a real token."""
        return cls(tuple(_read(valid).sum(axis=1).tolist()), padding_of(valid))


class Layout(NamedTuple):
    """What a step needs to know of a batch: known on the host, whatever device the batch is on."""

    rows: RowLayout
    source: RowLayout | None
    scored: torch.Tensor | None
    "(n) int64: the positions with a loss weight, in the flattened (b,t); None: all have one."
    labelled: torch.Tensor | None
    "(n) int64: the labels that are no padding, in the flattened (b,k); None without labels."


@dataclass(frozen=True)
class Batch:
    """Examples padded to the longest."""

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
    "Row indices in the data, named in errors."
    source: torch.Tensor | None = None
    "(b,s) int64: source ids of a seq2seq model (encoder input)"
    source_valid: torch.Tensor | None = None
    "(b,s) bool, True = a real token"
    modalities: torch.Tensor | None = None
    "(b,t) int64: 0 text, 1 image patch"
    patches: torch.Tensor | None = None
    "(b,p,k) float32: the values of each row's patches, in order of position"
    labels: torch.Tensor | None = None
    "(b,k): labels of each whole row, padded with −1"
    smoothing: float = 0.0
    "Label smoothing of the targets."
    rank_rows: tuple[int, ...] = ()
    "Of a batch that several ranks compute together: how many of its rows are each rank's."

    @property
    def tokens(self) -> int:
        """Real tokens, source included."""
        source_tokens = 0 if self.source_valid is None else int(self.source_valid.sum())
        return int(self.valid.sum()) + source_tokens

    @property
    def padding_fraction(self) -> float:
        """The fraction of positions that are padding."""
        return 1 - float(self.valid.float().mean())

    @cached_property
    def layout(self) -> Layout:
        """Read from the tensors, once; `to` carries it to the device, and a batch that `replace`
        makes reads its own."""
        scored = np.flatnonzero(_read(self.weights) > 0)
        return Layout(
            RowLayout.of(self.valid),
            None if self.source_valid is None else RowLayout.of(self.source_valid),
            None if len(scored) == self.weights.numel() else torch.from_numpy(scored),
            None
            if self.labels is None
            else torch.from_numpy(np.flatnonzero(_read(self.labels) >= 0)),
        )

    def at_scored(self, x: torch.Tensor) -> torch.Tensor:
        """(b,t,…) -> (n,…): at the positions with a loss weight, in order."""
        rows, scored = x.flatten(0, 1), self.layout.scored
        return rows if scored is None else rows.index_select(0, scored)

    def of_sources(self) -> Batch:
        """The sources as the rows."""
        assert self.source is not None
        assert self.source_valid is not None
        assert self.layout.source is not None
        rows = replace(self, ids=self.source, valid=self.source_valid, segments=None)
        vars(rows)["layout"] = self.layout._replace(rows=self.layout.source)
        return rows

    def to(self, device: torch.device | str) -> Batch:
        move = partial(copy_to, device=device)
        moved = self.map_tensors(move)
        scored, labelled = self.layout.scored, self.layout.labelled
        vars(moved)["layout"] = self.layout._replace(
            scored=None if scored is None else move(scored),
            labelled=None if labelled is None else move(labelled),
        )
        return moved

    def micro_batches(self, count: int) -> list[Batch]:
        """Split into at most `count` micro-batches of consecutive rows, none empty."""
        count = min(count, len(self.rows))
        if count == 1:
            return [self]
        return [self._slice(slice(*edge)) for edge in pairwise(split_edges(len(self.rows), count))]

    def _slice(self, rows: slice) -> Batch:
        return replace(self.map_tensors(lambda tensor: tensor[rows]), rows=self.rows[rows])

    def map_tensors(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
        """The batch of what `function` makes of each tensor."""
        tensors: dict[str, Any] = {
            field.name: function(value)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), torch.Tensor)
        }
        return replace(self, **tensors)


def split_edges(count: int, parts: int) -> list[int]:
    """Where each of at most `parts` parts begins, and where the last one ends; none is empty."""
    edges: list[int] = np.linspace(0, count, min(parts, count) + 1).round().astype(int).tolist()
    return edges


def padding_of(valid: torch.Tensor) -> Padding:
    """Where the rows (b,t) are padded; reads them."""
    is_token = _read(valid)
    if is_token.all():
        return "none"
    return "right" if (is_token[:, :-1] >= is_token[:, 1:]).all() else "anywhere"


def _read(tensor: torch.Tensor) -> NDArray[Any]:
    return np.asarray(tensor.cpu().numpy())


def pad(rows: Sequence[ArrayLike], pad_id: float) -> NDArray[Any]:
    """Pad rows to the longest with `pad_id` and stack them."""
    arrays = [np.asarray(row) for row in rows]
    lengths = np.array([len(array) for array in arrays])
    padded = np.full((len(arrays), lengths.max()), pad_id, dtype=np.result_type(*arrays))
    padded[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(arrays)
    return padded


def collate(examples: Sequence[Example], *, pad_id: int, rows: Sequence[int]) -> Batch:
    """Collate examples into one padded batch; `rows` are their indices."""
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
