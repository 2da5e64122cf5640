"""An encoder that reads patches behind the words of a row, and a model that tells hidden patches.

    [CLS] question [SEP]  patch_0 … patch_{p−1}        positions 0, 1, 2, …  and  T−p … T−1

A patch has the position it would have in a full row of T places, so it stays the same however long
the question is. Words are modality 0 and patches 1, by which group attention can keep them apart.

    loss = Σ over hidden patches of the mean of (pixel − told)²      He et al., 2022, masked images

Shapes: b batch, t place, p patches, k numbers in a patch, n hidden patches of a row, w model width.
`valid`: True = a token or a patch. Masks: True = may attend.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attention.masks.mask import Mask
from regard.attention.token_positions import TokenPositions
from regard.audits.subject import Subject
from regard.batch import Batch
from regard.core.count import Term, linear
from regard.models.architectures.encoder_model import EncoderModel
from regard.models.blocks.recorder import AttentionRecorder
from regard.models.heads.patches import PatchEmbedding
from regard.models.loss import LossTerm
from regard.models.task_models.task_model import TaskModel
from regard.nn.linear import Linear

PATCH = 1
"The modality of a patch; words are 0."


class PatchEncoder(EncoderModel):
    """The parts of an encoder, and an embedding of patches beside them."""

    def __init__(self, encoder: EncoderModel, *, patch_values: int) -> None:
        super().__init__(
            encoder.embedding,
            encoder.stack,
            encoder.head,
            context=encoder.context,
            across_documents=encoder.across_documents,
            boundary=encoder.boundary,
            pooler=encoder.pooler,
        )
        self.patch_values = patch_values
        width = encoder.embedding.tokens.embedding_dim
        self.patches = PatchEmbedding(patch_values, width=width)

    def through(
        self,
        batch: Batch,
        *,
        mask: Mask,
        texts: Tensor | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        if batch.patches is None or batch.modalities is None:
            return super().through(batch, mask=mask, texts=texts, recorder=recorder)
        is_patch = batch.modalities == PATCH
        tokens = TokenPositions(
            patch_positions(is_patch, batch.valid, context=self.reach),
            batch.segments,
            batch.modalities,
        )
        # Patches stand at the end of the context, whatever stands before the words.
        positions = self.front.positions(tokens, still=is_patch)
        words = self.embedding.tokens(batch.ids)
        vectors = self.patches(batch.patches).to(words.dtype)
        x = self.embedding.placed(
            words.masked_scatter(is_patch[..., None], vectors),
            positions.last(words.shape[1]),
            texts,
        )
        return self.run(x, positions, mask=mask, recorder=recorder)

    def audit_subject(self) -> Subject:
        """Rows whose first half are words and whose second half are patches."""
        return replace(
            super().audit_subject(),
            name=f"{type(self).__name__}, words and patches",
            run=lambda model, ids, valid: model.told_of_mixed(ids, valid=valid),
            run_with_weights=lambda model, ids: model.told_of_mixed(
                ids, recorder=AttentionRecorder()
            ),
        )

    def told_of_mixed(
        self, ids: Tensor, *, valid: Tensor | None = None, recorder: AttentionRecorder | None = None
    ) -> Tensor:
        """(b,t) -> (b,t,f): scores at every place of rows whose ids stand for patches in their
        second half; all rows have as many tokens."""
        batch = mixed_batch(ids, valid, patch_values=self.patch_values)
        _, mask = self.standing(ids, valid)
        x = self.through(batch, mask=mask, recorder=recorder)
        y: Tensor = self.head(x)
        if self.boundary is None:
            return y
        return torch.cat((y, self.boundary(x, x, torch.zeros_like(ids))), dim=-1)


class PatchHead(nn.Module):
    """The numbers of a patch from the vector at its place, (…,w) -> (…,k): k·w + k parameters."""

    def __init__(self, width: int, *, patch_values: int) -> None:
        super().__init__()
        self.values = Linear(width, patch_values)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.values(x)
        return y

    def terms(self) -> list[Term]:
        inputs, outputs = self.values.in_features, self.values.out_features
        return [linear("head, patches", inputs, outputs, biases=True, letters="w·k")]


class MaskedPatchModel(TaskModel[PatchHead]):
    """Tells hidden patches: those whose places count in the loss, by their numbers in `labels`."""

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        assert batch.labels is not None
        apart = self.told(batch) - batch.labels.view(len(batch.labels), -1, self._values)
        total = apart.square().mean(dim=-1).sum()
        return {"patches": LossTerm(total, batch.weights.sum())}

    def told(self, batch: Batch) -> Tensor:
        """(b,n,k): what each row's hidden patches are thought to hold; all rows hide as many."""
        y: Tensor = self.head(self.vectors(batch)[batch.weights > 0])
        return y.view(len(batch.ids), -1, self._values)

    @property
    def _values(self) -> int:
        return self.head.values.out_features


def patch_positions(is_patch: Tensor, valid: Tensor, *, context: int) -> Tensor:
    """(b,t): words count from 0 on, patches up to the end of the context."""
    words = (valid.cumsum(dim=1) - 1).clamp(min=0)
    before_end = is_patch.sum(dim=1, keepdim=True) - is_patch.cumsum(dim=1)
    return torch.where(is_patch, context - 1 - before_end, words)


def mixed_batch(ids: Tensor, valid: Tensor | None, *, patch_values: int) -> Batch:
    """Rows for an audit: the ids of their second half become patches, other ids other patches."""
    valid = torch.ones_like(ids, dtype=torch.bool) if valid is None else valid
    count = valid.sum(dim=1, keepdim=True)
    is_patch = valid & (valid.cumsum(dim=1) > (count + 1) // 2)
    waves = torch.arange(1, patch_values + 1, device=ids.device)
    numbers = 0.5 + 0.5 * (ids[is_patch][:, None] * waves).double().cos()
    return Batch(
        ids=ids,
        targets=ids,
        weights=valid.float(),
        valid=valid,
        segments=None,
        rows=tuple(range(len(ids))),
        modalities=is_patch.long() * PATCH,
        patches=numbers.view(len(ids), -1, patch_values),
    )
