"""An encoder for words followed by image patches, and a model that predicts masked patches.

    [CLS] question [SEP]  patch_0 … patch_{p−1}        positions 0, 1, 2, …  and  T−p … T−1

A patch has the position it would have in a full row of T positions, whatever the length of the
question. Words have modality 0 and patches 1, so that group attention can keep them apart.

    loss = Σ over masked patches of the mean of (pixel − prediction)²      He et al., 2022 (MAE)

Shapes: b batch, t position, p patches, k values in a patch, n masked patches of a row, w model
width, v vocabulary. `valid`: True = a token or a patch. Masks: True = may attend.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.attention.cache import ModelCache
from regard.attention.masks.mask import Mask
from regard.attention.token_positions import TokenPositions
from regard.batch import Batch
from regard.core.ledger import ParameterCount, linear_parameters
from regard.models.architectures.encoder_model import EncoderModel
from regard.models.blocks.patch_embedding import PatchEmbedding
from regard.models.inputs import ModelInputs
from regard.models.loss import LossTerm
from regard.models.task_models.task_model import TaskModel
from regard.nn.linear import Linear

PATCH = 1
"The modality of a patch; words are 0."


class PatchEncoder(EncoderModel):
    """The modules of an encoder with a patch embedding beside them."""

    def __init__(self, encoder: EncoderModel, *, patch_dim: int) -> None:
        super().__init__(
            encoder.embedding,
            encoder.stack,
            encoder.head,
            context=encoder.context,
            across_documents=encoder.across_documents,
            boundary=encoder.boundary,
            pooler=encoder.pooler,
        )
        self.patch_dim = patch_dim
        width = encoder.embedding.tokens.embedding_dim
        self.patches = PatchEmbedding(patch_dim, width=width)

    def _embed(
        self, inputs: ModelInputs, cache: ModelCache | None
    ) -> tuple[Tensor, TokenPositions, Mask]:
        tokens, mask = self._positions_and_mask(inputs, cache)
        if inputs.patches is None or tokens.modalities is None:
            return super()._embed(inputs, cache)
        is_patch = tokens.modalities == PATCH
        valid = torch.ones_like(is_patch) if inputs.valid is None else inputs.valid
        position_ids = patch_positions(is_patch, valid, context=self.max_positions)
        # Patches are at the end of the context, whatever virtual tokens precede the words.
        positions = self.virtual_prefix.positions(
            TokenPositions(position_ids, tokens.segments, tokens.modalities, limit=self.context),
            fixed=is_patch,
        )
        words = self.embedding.tokens(inputs.ids)
        patches = self.patches(inputs.patches).to(words.dtype)
        x = self.embedding.combine_positions(
            words.masked_scatter(is_patch[..., None], patches),
            positions.last(words.shape[1]),
            inputs.segments,
        )
        return x, positions, mask


class PatchHead(nn.Module):
    """The values of a patch from its hidden state, (…,w) -> (…,k): k·w + k parameters."""

    def __init__(self, width: int, *, patch_dim: int) -> None:
        super().__init__()
        self.values = Linear(width, patch_dim)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.values(x)
        return y

    def count_parameters(self) -> list[ParameterCount]:
        inputs, outputs = self.values.in_features, self.values.out_features
        return [linear_parameters("head, patches", inputs, outputs, biases=True, letters="w·k")]


class MaskedPatchModel(TaskModel[PatchHead]):
    """Predicts masked patches: those with a positive loss weight; `labels` hold their values."""

    entry_points: ClassVar[tuple[str, ...]] = ("hidden_states", "predict_patches")

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        assert batch.labels is not None
        labels = batch.labels.view(len(batch.labels), -1, self._patch_dim)
        errors = self.predict_patches(batch) - labels
        total = errors.square().mean(dim=-1).sum()
        return {"patches": LossTerm(total, batch.weights.sum())}

    def predict_patches(self, batch: Batch) -> Tensor:
        """(b,n,k): predicted values of each row's masked patches, the same number in every row."""
        y: Tensor = self.head(batch.at_scored(self.hidden_states(batch)))
        return y.view(len(batch.ids), -1, self._patch_dim)

    @property
    def _patch_dim(self) -> int:
        return self.head.values.out_features


def patch_positions(is_patch: Tensor, valid: Tensor, *, context: int) -> Tensor:
    """(b,t): words count from 0, patches up to the end of the context."""
    words = (valid.cumsum(dim=1) - 1).clamp(min=0)
    before_end = is_patch.sum(dim=1, keepdim=True) - is_patch.cumsum(dim=1)
    return torch.where(is_patch, context - 1 - before_end, words)
