"""A bidirectional encoder with a masked language model head.

If the objective labels the boundaries of masked spans, each masked token is also predicted from
these (`span_boundary.py`), as a second loss term.
Shapes: b batch, t position, n masked tokens, w model width, v vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.masks.mask import Mask
from regard.attention.token_positions import TokenPositions
from regard.batch import Batch, RowLayout
from regard.core.errors import UserError
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.stack import Stack
from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.heads.span_boundary import SpanBoundary
from regard.models.heads.task_heads import Pooler
from regard.models.inputs import ModelInputs, bidirectional_rows
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
        x = self.hidden_states(ModelInputs.of_batch(batch))
        terms = {
            "token": self.head.loss_term(  # logits of the few masked positions alone
                batch.at_scored(x),
                targets=batch.at_scored(batch.targets),
                weights=batch.at_scored(batch.weights),
            )
        }
        if batch.labels is not None:
            terms["boundary"] = self._boundary_loss_term(x, batch, batch.labels)
        return terms

    def own_positions_and_mask(
        self,
        valid: Tensor | None,
        *,
        length: int,
        device: torch.device,
        layout: RowLayout | None = None,
    ) -> tuple[TokenPositions, Mask]:
        return bidirectional_rows(valid, length=length, device=device, layout=layout)

    def position_outputs(self, x: Tensor) -> Tensor:
        """With a boundary network (b,t,w) -> (b,t,v+w): its output too, with each position as both
        ends of a span."""
        y = super().position_outputs(x)
        if self.boundary is None:
            return y
        offsets = torch.zeros(x.shape[:-1], dtype=torch.int64, device=x.device)
        return torch.cat((y, self.boundary(x, x, offsets)), dim=-1)

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
        labelled = batch.layout.labelled
        assert labelled is not None
        row = torch.div(labelled[::3], labels.shape[1], rounding_mode="floor")
        position, left, right = labels.flatten()[labelled].view(-1, 3).unbind(dim=-1)
        y = self.boundary(x[row, left], x[row, right], position - left - 1)
        weights = batch.weights[row, position]
        targets = batch.targets[row, position]
        return self.head.loss_term_after_transform(y, targets=targets, weights=weights)
