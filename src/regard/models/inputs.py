"""Model inputs: token rows, and where the caller decides, their positions and mask.

Shapes: b batch, t position, s source position, j key, p patches, k values in a patch. `valid`:
True = a token. Masks: True = may attend.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.masks.mask import Mask, bidirectional, causal, padding
from regard.attention.token_positions import TokenPositions
from regard.batch import Batch, Padding, RowLayout, padding_of
from regard.core.process.host import is_readable


class ModelInputs(NamedTuple):
    """What a model reads; what is None follows the model's own rule."""

    ids: Tensor
    "(b,t): after those in the cache, if there is one."
    valid: Tensor | None = None
    "(b,t), with a cache (b,j) for all tokens so far; None: all are tokens."
    positions: TokenPositions | None = None
    "Of tokens alone; None: counted per row."
    mask: Mask | None = None
    "Between tokens alone; None: the model's own, which may keep the documents of a row apart."
    segments: Tensor | None = None
    "(b,t): select the segment embeddings, if the model has any; then a row is no packed row."
    patches: Tensor | None = None
    "(b,p,k): the values of patches, at the positions of modality 1."
    source: Tensor | None = None
    "(b,s): for seq2seq models."
    source_valid: Tensor | None = None
    layout: RowLayout | None = None
    "Of `valid`, where the host knows it."
    source_layout: RowLayout | None = None

    @classmethod
    def of_batch(cls, batch: Batch) -> ModelInputs:
        """Rows of one or several documents; padding is on the right."""
        positions = TokenPositions.of_row(
            batch.ids.shape[1],
            device=batch.ids.device,
            segments=batch.segments,
            modalities=batch.modalities,
        )
        return cls(
            batch.ids,
            batch.valid,
            positions,
            patches=batch.patches,
            source=batch.source,
            source_valid=batch.source_valid,
            layout=batch.layout.rows,
            source_layout=batch.layout.source,
        )

    @classmethod
    def of_texts(cls, batch: Batch) -> ModelInputs:
        """Rows of a task: the texts of a row are its segments, and attend to each other."""
        return cls.of_batch(batch)._replace(segments=batch.segments)


def causal_rows(
    valid: Tensor | None,
    *,
    length: int,
    device: torch.device,
    layout: RowLayout | None = None,
) -> tuple[TokenPositions, Mask]:
    """Positions and mask of rows whose tokens attend to those before them."""
    if valid is None or _padding(valid, layout) != "anywhere":
        # The causal mask already keeps tokens from attending to padding on the right.
        return TokenPositions.of_row(length, device=device), causal()
    return TokenPositions.of_padded(valid), causal() & padding(valid)


def bidirectional_rows(
    valid: Tensor | None,
    *,
    length: int,
    device: torch.device,
    layout: RowLayout | None = None,
) -> tuple[TokenPositions, Mask]:
    """Positions and mask of rows whose tokens attend to all others."""
    if valid is None or _padding(valid, layout) == "none":
        return TokenPositions.of_row(length, device=device), bidirectional()
    return TokenPositions.of_padded(valid), padding(valid)


def _padding(valid: Tensor, layout: RowLayout | None) -> Padding:
    """Where rows are padded; "anywhere", which is always right, where it is not known."""
    if layout is None:
        return padding_of(valid) if is_readable(valid) else "anywhere"
    return layout.padding
