"""An encoder that tells hidden tokens: every place sees the whole row, and what stood where.

Shapes: b batch, t place, v vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

from torch import Tensor

from regard.attention.mask import Mask, bidirectional, padding
from regard.attention.places import Places
from regard.model.loss import LossTerm, token_term
from regard.model.row_model import RowModel
from regard.text.batches import Batch


class EncoderModel(RowModel):
    sees = "bidirectional"

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        x, table = self.read(batch), self.head.tokens.weight
        chosen = batch.weights > 0  # few places are hidden, and only those are scored
        return {
            "token": token_term(
                x[chosen], table, targets=batch.targets[chosen], weights=batch.weights[chosen]
            )
        }

    def standing(self, ids: Tensor, valid: Tensor | None) -> tuple[Places, Mask]:
        if valid is None or bool(valid.all()):
            return Places.of_row(ids.shape[1], device=ids.device), bidirectional()
        return Places.of_padded(valid), padding(valid)
