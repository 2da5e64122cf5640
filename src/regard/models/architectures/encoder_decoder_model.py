"""A source is read whole, then a target is written from it, token by token.

    memory = encoder(source)        p(y_t | y_<t, source) from decoder(y_<t, memory)

`Written` binds a model to the sources of a batch, so that generation needs to know nothing of
sources. A prompt stands before the source, and the target sees what is read at its places too; a
prefix stands before both (`virtual.py`).
Shapes: b batch, s source place, t target place, p virtual places, w model width, v vocabulary.
Masks: True = may attend.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from regard.attention.cache import Cache
from regard.attention.masks.mask import Mask, bidirectional, causal, cross, padding
from regard.attention.token_positions import Places
from regard.audits.subject import Subject
from regard.models.architectures.seq2seq_model import SourceModel
from regard.models.architectures.source_bound import audited_writer
from regard.models.blocks.block import Source
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.recorder import Recorder, inside
from regard.models.blocks.stack import Stack
from regard.models.blocks.virtual_tokens import VirtualPlaces, check_room, keep_tokens
from regard.models.heads.heads import LanguageModelHead


class SequenceToSequence(VirtualPlaces, SourceModel):
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
        self.register_parameter("prompt", None)

    def target(
        self, ids: Tensor, *, source: Tensor, source_valid: Tensor, recorder: Recorder | None = None
    ) -> Tensor:
        read = self.encode(source, source_valid, recorder=recorder)
        places = Places.of_row(ids.shape[1], device=ids.device)
        memory = self._memory(read, source_valid)
        hidden = self._hidden(ids, places, memory, mask=causal(), recorder=recorder)
        if recorder is not None and self.front.length:
            keys = {"attention": ids.shape[1], "source_attention": source.shape[1]}
            keep_tokens(recorder, side="decoder.", queries=ids.shape[1], keys=keys)
        return hidden

    def encode(self, source: Tensor, valid: Tensor, *, recorder: Recorder | None = None) -> Tensor:
        """(b,s) -> (b,s,w), with a prompt (b,p+s,w); `valid` (b,s) is True where a place holds a
        token."""
        tokens = source.shape[1]
        places = self.front.places(Places.of_row(tokens, device=source.device))
        check_room(places, self.source_embedding, reach=self.reach)
        mask = bidirectional() if bool(valid.all()) else padding(valid)
        x: Tensor = self.source_embedding(source, places.last(tokens))
        y: Tensor = self.encoder(
            self.behind_prompt(x, self.source_embedding, places),
            mask=self.front.mask(mask, keys=places.positions.shape[1], device=x.device),
            places=places,
            recorder=inside(recorder, "encoder"),
        )
        if recorder is not None and places.virtual:
            keep_tokens(recorder, side="encoder.", queries=tokens, keys={"attention": tokens})
        return y

    def new_cache_for(self, source: Tensor, valid: Tensor) -> Cache:
        read = self.encode(source, valid)
        cache = self.decoder.new_cache(self.context, source_places=read.shape[1])
        cache.source, cache.source_valid = read, valid
        return cache

    def step(self, ids: Tensor, *, valid: Tensor, cache: Cache) -> Tensor:
        """Read new target tokens (b,i) after those in the cache; scores at each, (b,i,v)."""
        assert cache.source is not None
        assert cache.source_valid is not None
        places = Places.of_padded(valid)
        mask = causal() if places.in_order else causal() & padding(valid)
        memory = self._memory(cache.source, cache.source_valid)
        y: Tensor = self.head(self._hidden(ids, places, memory, mask=mask, cache=cache))
        return y

    def audit_subject(self) -> Subject:
        subject = audited_writer(
            self,
            name="encoder-decoder",
            vocabulary=self.embedding.tokens.num_embeddings,
            embedding="embedding.tokens",
            weights={"recorder": Recorder},
        )
        return replace(subject, longest=self.context)

    def _memory(self, read: Tensor, valid: Tensor) -> Source:
        """What the target looks at: all real places of the source, and what stands before them."""
        keys = self.front.length + valid.shape[1]
        return Source(read, self.front.mask(cross(valid), keys=keys, device=valid.device))

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
        front = self.front_of(self.prefix_length)
        places = front.places(places)
        check_room(places, self.embedding, reach=self.reach)
        x: Tensor = self.embedding(ids, places.last(ids.shape[1]))
        y: Tensor = self.decoder(
            x,
            mask=front.mask(mask, keys=places.positions.shape[1], device=x.device),
            places=places,
            source=source,
            cache=cache,
            recorder=inside(recorder, "decoder"),
        )
        return y
