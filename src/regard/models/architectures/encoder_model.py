"""An encoder that tells hidden tokens: every place sees the whole row, and what stood where.

Where the objective names the ends of hidden spans, each token of a span is also told from these
(`boundary.py`), as a second loss term.
Shapes: b batch, t place, n hidden tokens, w model width, v vocabulary. Masks: True = may attend.
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
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.recorder import AttentionRecorder
from regard.models.blocks.stack import Stack
from regard.models.heads.heads import LanguageModelHead, Pooler
from regard.models.heads.span_boundary import SpanBoundary
from regard.models.loss import LossTerm


class EncoderModel(SequenceModel):
    sees = "bidirectional"

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
        x = self.read(batch)
        chosen = batch.weights > 0  # few places are hidden, and only those are scored
        terms = {
            "token": self.head.term(
                x[chosen], targets=batch.targets[chosen], weights=batch.weights[chosen]
            )
        }
        if batch.labels is not None:
            terms["boundary"] = self._boundary_term(x, batch, batch.labels)
        return terms

    def standing(self, ids: Tensor, valid: Tensor | None) -> tuple[TokenPositions, Mask]:
        if valid is None or bool(valid.all()):
            return TokenPositions.of_row(ids.shape[1], device=ids.device), bidirectional()
        return TokenPositions.of_padded(valid), padding(valid)

    def audit_subject(self) -> Subject:
        subject = super().audit_subject()
        if self.boundary is None:
            return subject
        return replace(
            subject,
            run=lambda model, ids, valid: model.told_both_ways(ids, valid=valid),
            run_with_weights=lambda model, ids: model.told_both_ways(
                ids, recorder=AttentionRecorder()
            ),
        )

    def told_both_ways(
        self, ids: Tensor, *, valid: Tensor | None = None, recorder: AttentionRecorder | None = None
    ) -> Tensor:
        """(b,t) -> (b,t,v+w): the scores, and what the boundary network makes of each place as both
        ends of a span; so an audit sees all that is trained."""
        assert self.boundary is not None
        x = self.encode(ids, valid=valid, recorder=recorder)
        return torch.cat((self.head(x), self.boundary(x, x, torch.zeros_like(ids))), dim=-1)

    def _boundary_term(self, x: Tensor, batch: Batch, labels: Tensor) -> LossTerm:
        """`labels` (b,3n) are place, left end and right end of each hidden token in turn, −1 where
        a row has fewer."""
        if self.boundary is None:
            raise UserError(
                "this objective tells hidden spans from their ends, and the model has no network "
                "for that",
                topic="objective",
                hint='Set model.boundary = true, or objective = "masked".',
            )
        named = labels.view(len(labels), -1, 3)
        row, number = torch.nonzero(named[..., 0] >= 0, as_tuple=True)
        place, left, right = named[row, number].unbind(dim=-1)
        y = self.boundary(x[row, left], x[row, right], place - left - 1)
        weights = batch.weights[row, place]
        targets = batch.targets[row, place]
        return self.head.table_term(y, targets=targets, weights=weights)
