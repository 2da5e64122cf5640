"""A language model: embed the tokens, run the blocks, score the next token at every place.

Shapes: b batch, t or i place, j key, w model width, v vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from regard.attention.cache import Cache
from regard.attention.mask import Mask, causal, padding, same_document
from regard.attention.places import Places
from regard.model.embedding import Embedding
from regard.model.heads import LanguageModelHead
from regard.model.loss import LossTerm, token_losses, token_term
from regard.model.model import Model
from regard.model.recorder import Recorder
from regard.model.stack import Stack
from regard.text.batches import Batch
from regard.trust.subject import Subject


class LanguageModel(Model):
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
        return {"token": token_term(x, table, targets=batch.targets, weights=batch.weights)}

    def losses(self, batch: Batch, *, recorder: Recorder | None = None) -> Tensor:
        x = self._read(batch, recorder=recorder)
        return token_losses(x, self.head.tokens.weight, targets=batch.targets)

    def logits(
        self, ids: Tensor, *, valid: Tensor | None = None, recorder: Recorder | None = None
    ) -> Tensor:
        """(b,t) -> (b,t,v); `valid` (b,t) is True where a place holds a token; a recorder takes
        the attention weights."""
        places, mask = _standing(ids, valid)
        y: Tensor = self.head(self._hidden(ids, places, mask=mask, recorder=recorder))
        return y

    def mask_for(self, batch: Batch) -> Mask:
        """Causal. Rows are padded on the right, where no real place can look anyway."""
        if self.across_documents or batch.segments is None:
            return causal()
        return causal() & same_document(batch.segments)

    def new_cache(self, rows: int) -> Cache:
        return self.stack.new_cache(self.context)

    def step(self, ids: Tensor, *, valid: Tensor, positions: Tensor, cache: Cache) -> Tensor:
        """Read new tokens (b,i) after those in the cache; the scores after the last one, (b,v).

        `valid` (b,j) is True where a key holds a token (prompts are padded on the left).
        """
        y: Tensor = self.head(self._after(ids, valid=valid, cache=cache)[:, -1])
        return y

    def _after(self, ids: Tensor, *, valid: Tensor, cache: Cache) -> Tensor:
        """What stands at new places (b,i) after those in the cache, (b,i,w)."""
        places, mask = _standing(ids, valid)
        return self._hidden(ids, places, mask=mask, cache=cache)

    def audit_subject(self) -> Subject:
        return Subject(
            "decoder",
            lambda model, ids, valid: model.logits(ids, valid=valid),
            module=self,
            vocabulary=self.embedding.tokens.num_embeddings,
            longest=self.context,
            embedding="embedding.tokens",
            takes_valid=True,
            run_cached=_in_pieces,
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
        self,
        ids: Tensor,
        places: Places,
        *,
        mask: Mask,
        cache: Cache | None = None,
        recorder: Recorder | None = None,
    ) -> Tensor:
        x = self.embedding(ids, places.last(ids.shape[1]))
        y: Tensor = self.stack(x, mask=mask, places=places, cache=cache, recorder=recorder)
        return y


def _standing(ids: Tensor, valid: Tensor | None) -> tuple[Places, Mask]:
    """Where tokens stand and what each may see."""
    if valid is None:
        return Places.of_row(ids.shape[1], device=ids.device), causal()
    places = Places.of_padded(valid)
    return places, causal() if places.in_order else causal() & padding(valid)


def _in_pieces(model: LanguageModel, ids: Tensor, cuts: Sequence[int]) -> Tensor:
    """The scores at every place, read through the cache in the pieces between `cuts`."""
    cache, valid = model.new_cache(len(ids)), torch.ones_like(ids, dtype=torch.bool)
    pieces = [
        model.head(model._after(ids[:, begin:end], valid=valid[:, :end], cache=cache))
        for begin, end in pairwise([0, *cuts, ids.shape[1]])
    ]
    return torch.cat(pieces, dim=1)
