"""An encoder for words followed by image patches, and a model that predicts masked patches.

    [CLS] question [SEP]  patch_0 … patch_{p−1}        positions 0, 1, 2, …  and  T−p … T−1

A patch has the position it would have in a full row of T positions, whatever the length of the
question. Words have modality 0 and patches 1, so that group attention can keep them apart.

    loss = Σ over masked patches of the mean of (pixel − prediction)²      He et al., 2022 (MAE)

Shapes: b batch, t position, p patches, k values in a patch, n masked patches of a row, w model
width, v vocabulary. `valid`: True = a token or a patch. Masks: True = may attend.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attention.masks.mask import Mask
from regard.attention.token_positions import TokenPositions
from regard.audits.subject import Subject
from regard.batch import Batch
from regard.core.parameter_count import ParameterCount, linear_parameters
from regard.models.architectures.encoder_model import EncoderModel
from regard.models.architectures.sequence_model import EmbeddedTokens
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.blocks.patch_embedding import PatchEmbedding
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

    def embed_batch(
        self, batch: Batch, *, mask: Mask | None = None, segments: Tensor | None = None
    ) -> EmbeddedTokens:
        if batch.patches is None or batch.modalities is None:
            return super().embed_batch(batch, mask=mask, segments=segments)
        is_patch = batch.modalities == PATCH
        tokens = TokenPositions(
            patch_positions(is_patch, batch.valid, context=self.max_positions),
            batch.segments,
            batch.modalities,
        )
        # Patches are at the end of the context, whatever virtual tokens precede the words.
        positions = self.virtual_prefix.positions(tokens, fixed=is_patch)
        words = self.embedding.tokens(batch.ids)
        patches = self.patches(batch.patches).to(words.dtype)
        x = self.embedding.combine_positions(
            words.masked_scatter(is_patch[..., None], patches),
            positions.last(words.shape[1]),
            segments,
        )
        return EmbeddedTokens(x, positions, self.batch_mask(batch) if mask is None else mask)

    def audit_subject(self) -> Subject:
        """Over rows whose first half are words and whose second half are patches."""
        return replace(
            super().audit_subject(),
            name=f"{type(self).__name__}, words and patches",
            run=lambda model, ids, valid: model.mixed_logits(ids, valid=valid),
            run_with_weights=lambda model, ids: model.mixed_logits(
                ids, recorder=AttentionRecorder()
            ),
        )

    def mixed_logits(
        self, ids: Tensor, *, valid: Tensor | None = None, recorder: AttentionRecorder | None = None
    ) -> Tensor:
        """(b,t) -> (b,t,v), with a boundary network (b,t,v+w): outputs at every position of rows
        whose second half of ids stands for patches; all rows have the same number of tokens."""
        batch = mixed_batch(ids, valid, patch_dim=self.patch_dim)
        _, mask = self.positions_and_mask(ids, valid)
        x = self.hidden_states(self.embed_batch(batch, mask=mask), recorder=recorder)
        y: Tensor = self.head(x)
        if self.boundary is None:
            return y
        return torch.cat((y, self.boundary(x, x, torch.zeros_like(ids))), dim=-1)


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

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        assert batch.labels is not None
        labels = batch.labels.view(len(batch.labels), -1, self._patch_dim)
        errors = self.predict_patches(batch) - labels
        total = errors.square().mean(dim=-1).sum()
        return {"patches": LossTerm(total, batch.weights.sum())}

    def predict_patches(self, batch: Batch) -> Tensor:
        """(b,n,k): predicted values of each row's masked patches, the same number in every row."""
        y: Tensor = self.head(self.hidden_states(batch)[batch.weights > 0])
        return y.view(len(batch.ids), -1, self._patch_dim)

    @property
    def _patch_dim(self) -> int:
        return self.head.values.out_features


def patch_positions(is_patch: Tensor, valid: Tensor, *, context: int) -> Tensor:
    """(b,t): words count from 0, patches up to the end of the context."""
    words = (valid.cumsum(dim=1) - 1).clamp(min=0)
    before_end = is_patch.sum(dim=1, keepdim=True) - is_patch.cumsum(dim=1)
    return torch.where(is_patch, context - 1 - before_end, words)


def mixed_batch(ids: Tensor, valid: Tensor | None, *, patch_dim: int) -> Batch:
    """Rows for an audit: ids of the second half become patches, different ids different patches."""
    valid = torch.ones_like(ids, dtype=torch.bool) if valid is None else valid
    count = valid.sum(dim=1, keepdim=True)
    is_patch = valid & (valid.cumsum(dim=1) > (count + 1) // 2)
    frequencies = torch.arange(1, patch_dim + 1, device=ids.device)
    values = 0.5 + 0.5 * (ids[is_patch][:, None] * frequencies).double().cos()
    return Batch(
        ids=ids,
        targets=ids,
        weights=valid.float(),
        valid=valid,
        segments=None,
        rows=tuple(range(len(ids))),
        modalities=is_patch.long() * PATCH,
        patches=values.view(len(ids), -1, patch_dim),
    )
