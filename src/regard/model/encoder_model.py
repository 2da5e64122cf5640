"""An encoder that tells hidden tokens: every place sees the whole row, and what stood where.

Shapes: b batch, t place, w model width, v vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

from torch import Tensor

from regard.attention.mask import Mask, bidirectional, padding, same_document
from regard.attention.places import Places
from regard.model.embedding import Embedding
from regard.model.heads import LanguageModelHead
from regard.model.loss import LossTerm, token_losses, token_term
from regard.model.model import Model
from regard.model.recorder import Recorder
from regard.model.stack import Stack
from regard.text.batches import Batch
from regard.trust.subject import Subject


class EncoderModel(Model):
    sees = "bidirectional"

    def __init__(
        self,
        embedding: Embedding,
        stack: Stack,
        head: LanguageModelHead,
        *,
        context: int,
        across_documents: bool,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.head = head
        self.context = context
        self.across_documents = across_documents

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        x, table = self._read(batch), self.head.tokens.weight
        chosen = batch.weights > 0  # few places are hidden, and only those are scored
        return {
            "token": token_term(
                x[chosen], table, targets=batch.targets[chosen], weights=batch.weights[chosen]
            )
        }

    def losses(self, batch: Batch, *, recorder: Recorder | None = None) -> Tensor:
        x = self._read(batch, recorder=recorder)
        return token_losses(x, self.head.tokens.weight, targets=batch.targets)

    def logits(
        self, ids: Tensor, *, valid: Tensor | None = None, recorder: Recorder | None = None
    ) -> Tensor:
        """(b,t) -> (b,t,v); `valid` (b,t) is True where a place holds a token."""
        y: Tensor = self.head(self.encode(ids, valid=valid, recorder=recorder))
        return y

    def encode(
        self, ids: Tensor, *, valid: Tensor | None = None, recorder: Recorder | None = None
    ) -> Tensor:
        """(b,t) -> (b,t,w): the vectors that heads work on."""
        if valid is None or bool(valid.all()):
            places = Places.of_row(ids.shape[1], device=ids.device)
            return self._hidden(ids, places, mask=bidirectional(), recorder=recorder)
        return self._hidden(ids, Places.of_padded(valid), mask=padding(valid), recorder=recorder)

    def mask_for(self, batch: Batch) -> Mask:
        """Every token of the row, or of its own document."""
        mask = bidirectional() if bool(batch.valid.all()) else padding(batch.valid)
        if self.across_documents or batch.segments is None:
            return mask
        return mask & same_document(batch.segments)

    def audit_subject(self) -> Subject:
        return Subject(
            "encoder",
            lambda model, ids, valid: model.logits(ids, valid=valid),
            module=self,
            vocabulary=self.embedding.tokens.num_embeddings,
            longest=self.context,
            embedding="embedding.tokens",
            takes_valid=True,
            run_with_weights=lambda model, ids: model.logits(ids, recorder=Recorder()),
        )

    def _read(self, batch: Batch, *, recorder: Recorder | None = None) -> Tensor:
        places = Places.of_row(
            batch.ids.shape[1],
            device=batch.ids.device,
            segments=batch.segments,
            modalities=batch.modalities,
        )
        return self._hidden(batch.ids, places, mask=self.mask_for(batch), recorder=recorder)

    def _hidden(
        self, ids: Tensor, places: Places, *, mask: Mask, recorder: Recorder | None = None
    ) -> Tensor:
        x: Tensor = self.embedding(ids, places.positions)
        y: Tensor = self.stack(x, mask=mask, places=places, recorder=recorder)
        return y
