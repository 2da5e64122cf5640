"""A language model: embed the tokens, run the blocks, score the next token at every place.

Shapes: b batch, t or i place, j key, w model width, v vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.cache import Cache, LayerCache
from regard.attention.mask import Mask, causal, padding, same_document
from regard.model.embedding import Embedding
from regard.model.heads import LanguageModelHead
from regard.model.layers import Block
from regard.model.loss import LossTerm, token_losses, token_term
from regard.text.batches import Batch


class LanguageModel(nn.Module):
    def __init__(
        self,
        embedding: Embedding,
        blocks: list[Block],
        head: LanguageModelHead,
        *,
        norm: nn.Module,
        context: int,
        across_documents: bool,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.head = head
        self.context = context
        self.across_documents = across_documents

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        """The named loss terms of a batch."""
        x, table = self._read(batch), self.head.tokens.weight
        return {"token": token_term(x, table, targets=batch.targets, weights=batch.weights)}

    def losses(self, batch: Batch) -> Tensor:
        """−log p(target) at each place, in nats, (b,t)."""
        return token_losses(self._read(batch), self.head.tokens.weight, targets=batch.targets)

    def logits(self, ids: Tensor, *, mask: Mask | None = None) -> Tensor:
        """(b,t) -> (b,t,v)"""
        y: Tensor = self.head(self._hidden(ids, _places(ids), mask=mask or causal()))
        return y

    def mask_for(self, batch: Batch) -> Mask:
        """Causal. Rows are padded on the right, where no real place can look anyway."""
        if self.across_documents or batch.segments is None:
            return causal()
        return causal() & same_document(batch.segments)

    def new_cache(self, rows: int) -> Cache:
        return Cache(lambda: LayerCache(self.context), layers=len(self.blocks))

    def step(self, ids: Tensor, *, valid: Tensor, positions: Tensor, cache: Cache) -> Tensor:
        """Read new tokens (b,i) after those in the cache; the scores after the last one, (b,v).

        `valid` (b,j) is True where a key holds a token (prompts are padded on the left).
        """
        mask = causal() if bool(valid.all()) else causal() & padding(valid)
        y: Tensor = self.head(self._hidden(ids, positions, mask=mask, cache=cache)[:, -1])
        return y

    def _read(self, batch: Batch) -> Tensor:
        return self._hidden(batch.ids, _places(batch.ids), mask=self.mask_for(batch))

    def _hidden(
        self, ids: Tensor, places: Tensor, *, mask: Mask, cache: Cache | None = None
    ) -> Tensor:
        x = self.embedding(ids, places)
        for number, block in enumerate(self.blocks):
            x = block(x, mask=mask, cache=None if cache is None else cache.layers[number])
        y: Tensor = self.norm(x)
        return y


def _places(ids: Tensor) -> Tensor:
    return torch.arange(ids.shape[1], device=ids.device)
