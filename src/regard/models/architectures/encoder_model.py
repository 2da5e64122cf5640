"""A bidirectional encoder with a masked language model head.

If the objective labels the boundaries of masked spans, each masked token is also predicted from
these (`span_boundary.py`), as a second loss term.
Shapes: b batch, t position, n masked tokens, w model width, v vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.attention.masks.mask import Mask, bidirectional, padding
from regard.attention.token_positions import TokenPositions
from regard.audits.subject import Subject
from regard.batch import Batch
from regard.core.errors import UserError
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.stack import Stack
from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.heads.span_boundary import SpanBoundary
from regard.models.heads.task_heads import Pooler
from regard.models.loss import LossTerm


class EncoderModel(SequenceModel):
    visibility = "bidirectional"

    def __init__(
        self,
        embedding: Embedding,
        stack: Stack,
        head: LanguageModelHead,
        *,
        context: int,
        across_documents: bool,
        boundary: SpanBoundary | None = None,
        pooler: Pooler | None = None,
    ) -> None:
        super().__init__(
            embedding,
            stack,
            head,
            context=context,
            across_documents=across_documents,
            pooler=pooler,
        )
        self.boundary = boundary

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        x = self.hidden_states(self.embed_batch(batch))
        masked = batch.weights > 0  # logits are computed at the few masked positions alone
        terms = {
            "token": self.head.loss_term(
                x[masked], targets=batch.targets[masked], weights=batch.weights[masked]
            )
        }
        if batch.labels is not None:
            terms["boundary"] = self._boundary_loss_term(x, batch, batch.labels)
        return terms

    def positions_and_mask(self, ids: Tensor, valid: Tensor | None) -> tuple[TokenPositions, Mask]:
        if valid is None or bool(valid.all()):
            return TokenPositions.of_row(ids.shape[1], device=ids.device), bidirectional()
        return TokenPositions.of_padded(valid), padding(valid)

    def audit_subject(self) -> Subject:
        subject = super().audit_subject()
        if self.boundary is None:
            return subject
        return replace(
            subject,
            run=lambda model, ids, valid: model.logits_and_boundary_states(ids, valid=valid),
            run_with_weights=lambda model, ids: model.logits_and_boundary_states(
                ids, recorder=AttentionRecorder()
            ),
        )

    def logits_and_boundary_states(
        self, ids: Tensor, *, valid: Tensor | None = None, recorder: AttentionRecorder | None = None
    ) -> Tensor:
        """(b,t) -> (b,t,v+w): the logits, and the boundary network's output with each position as
        both ends of a span, so that an audit covers everything that is trained."""
        assert self.boundary is not None
        x = self.hidden_states(self.embed(ids, valid=valid), recorder=recorder)
        return torch.cat((self.head(x), self.boundary(x, x, torch.zeros_like(ids))), dim=-1)

    def _boundary_loss_term(self, x: Tensor, batch: Batch, labels: Tensor) -> LossTerm:
        """`labels` (b,3n) hold position, left and right boundary of each masked token in turn, −1
        where a row has fewer."""
        if self.boundary is None:
            raise UserError(
                "this objective predicts masked spans from their boundaries, and the model has no "
                "boundary network",
                topic="objective",
                hint='Set model.boundary = true, or objective = "masked".',
            )
        triples = labels.view(len(labels), -1, 3)
        row, number = torch.nonzero(triples[..., 0] >= 0, as_tuple=True)
        position, left, right = triples[row, number].unbind(dim=-1)
        y = self.boundary(x[row, left], x[row, right], position - left - 1)
        weights = batch.weights[row, position]
        targets = batch.targets[row, position]
        return self.head.loss_term_after_transform(y, targets=targets, weights=weights)
