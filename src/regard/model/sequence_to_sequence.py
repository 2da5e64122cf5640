"""A source is read whole, then a target is written from it, token by token.

    memory = encoder(source)        p(y_t | y_<t, source) from decoder(y_<t, memory)

`Written` binds a model to the sources of a batch, so that generation needs to know nothing of
sources. Shapes: b batch, s source place, t target place, w model width, v vocabulary. Masks: True
= may attend.
"""

from __future__ import annotations

from torch import Tensor

from regard.attention.cache import Cache
from regard.attention.mask import Mask, bidirectional, causal, cross, padding
from regard.attention.places import Places
from regard.errors import UserError
from regard.model.embedding import Embedding
from regard.model.heads import LanguageModelHead
from regard.model.layers import Source
from regard.model.loss import LossTerm, token_losses, token_term
from regard.model.model import Model
from regard.model.recorder import Recorder, inside
from regard.model.stack import Stack
from regard.model.writing import Written, audited_writer
from regard.text.batches import Batch
from regard.trust.subject import Subject


class SequenceToSequence(Model):
    def __init__(
        self,
        source_embedding: Embedding,
        embedding: Embedding,
        encoder: Stack,
        decoder: Stack,
        head: LanguageModelHead,
        *,
        context: int,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.source_embedding = source_embedding
        source_embedding.share_tokens(embedding)
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.context = context

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        x, table = self._read(batch), self.head.tokens.weight
        return {"token": token_term(x, table, targets=batch.targets, weights=batch.weights)}

    def losses(self, batch: Batch, *, recorder: Recorder | None = None) -> Tensor:
        x = self._read(batch, recorder=recorder)
        return token_losses(x, self.head.tokens.weight, targets=batch.targets)

    def logits(
        self,
        ids: Tensor,
        *,
        source: Tensor,
        source_valid: Tensor,
        recorder: Recorder | None = None,
    ) -> Tensor:
        """(b,t) -> (b,t,v)"""
        memory = self._memory(source, source_valid, recorder)
        y: Tensor = self.head(self._target(ids, memory, recorder=recorder))
        return y

    def encode(self, source: Tensor, valid: Tensor, *, recorder: Recorder | None = None) -> Tensor:
        """(b,s) -> (b,s,w); `valid` (b,s) is True where a place holds a token."""
        mask = bidirectional() if bool(valid.all()) else padding(valid)
        places = Places.of_row(source.shape[1], device=source.device)
        x: Tensor = self.source_embedding(source, places.positions)
        y: Tensor = self.encoder(x, mask=mask, places=places, recorder=inside(recorder, "encoder"))
        return y

    def given(self, source: Tensor, valid: Tensor) -> Written:
        """This model as a writer from these sources, (b,s), padded on the right."""
        return Written(self, source, valid)

    def new_cache_for(self, source: Tensor, valid: Tensor) -> Cache:
        cache = self.decoder.new_cache(self.context, source_places=source.shape[1])
        cache.source, cache.source_valid = self.encode(source, valid), valid
        return cache

    def step(self, ids: Tensor, *, valid: Tensor, cache: Cache) -> Tensor:
        """Read new target tokens (b,i) after those in the cache; scores at each, (b,i,v)."""
        assert cache.source is not None
        assert cache.source_valid is not None
        places = Places.of_padded(valid)
        mask = causal() if places.in_order else causal() & padding(valid)
        memory = Source(cache.source, cross(cache.source_valid))
        y: Tensor = self.head(self._hidden(ids, places, memory, mask=mask, cache=cache))
        return y

    def audit_subject(self) -> Subject:
        return audited_writer(
            self,
            name="encoder-decoder",
            vocabulary=self.embedding.tokens.num_embeddings,
            embedding="embedding.tokens",
            weights={"recorder": Recorder},
        )

    def _read(self, batch: Batch, *, recorder: Recorder | None = None) -> Tensor:
        if batch.source is None or batch.source_valid is None:
            raise UserError(
                "this model writes from a source, and the objective gives it none",
                topic="objective",
                mend='Set objective = "prefix".',
            )
        memory = self._memory(batch.source, batch.source_valid, recorder)
        return self._target(batch.ids, memory, recorder=recorder)

    def _memory(self, source: Tensor, valid: Tensor, recorder: Recorder | None) -> Source:
        return Source(self.encode(source, valid, recorder=recorder), cross(valid))

    def _target(self, ids: Tensor, source: Source, *, recorder: Recorder | None = None) -> Tensor:
        places = Places.of_row(ids.shape[1], device=ids.device)
        return self._hidden(ids, places, source, mask=causal(), recorder=recorder)

    def _hidden(
        self,
        ids: Tensor,
        places: Places,
        source: Source,
        *,
        mask: Mask,
        cache: Cache | None = None,
        recorder: Recorder | None = None,
    ) -> Tensor:
        x: Tensor = self.embedding(ids, places.last(ids.shape[1]))
        y: Tensor = self.decoder(
            x,
            mask=mask,
            places=places,
            source=source,
            cache=cache,
            recorder=inside(recorder, "decoder"),
        )
        return y
