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
from regard.model.embedding import Embedding
from regard.model.heads import LanguageModelHead
from regard.model.layers import Source
from regard.model.recorder import Recorder, inside
from regard.model.source_model import SourceModel
from regard.model.stack import Stack
from regard.model.writing import audited_writer
from regard.trust.subject import Subject


class SequenceToSequence(SourceModel):
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

    def target(
        self, ids: Tensor, *, source: Tensor, source_valid: Tensor, recorder: Recorder | None = None
    ) -> Tensor:
        read = self.encode(source, source_valid, recorder=recorder)
        places = Places.of_row(ids.shape[1], device=ids.device)
        memory = Source(read, cross(source_valid))
        return self._hidden(ids, places, memory, mask=causal(), recorder=recorder)

    def encode(self, source: Tensor, valid: Tensor, *, recorder: Recorder | None = None) -> Tensor:
        """(b,s) -> (b,s,w); `valid` (b,s) is True where a place holds a token."""
        mask = bidirectional() if bool(valid.all()) else padding(valid)
        places = Places.of_row(source.shape[1], device=source.device)
        x: Tensor = self.source_embedding(source, places.positions)
        y: Tensor = self.encoder(x, mask=mask, places=places, recorder=inside(recorder, "encoder"))
        return y

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
