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

from regard.attention.cache import ModelCache
from regard.attention.masks.mask import Mask, bidirectional, causal, cross, padding
from regard.attention.token_positions import TokenPositions
from regard.audits.subject import Subject
from regard.models.architectures.seq2seq_model import Seq2SeqModel
from regard.models.architectures.source_bound import audited_writer
from regard.models.blocks.block import Memory
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.recorder import AttentionRecorder, inside
from regard.models.blocks.stack import Stack
from regard.models.blocks.virtual_tokens import VirtualTokens, check_room, keep_tokens
from regard.models.heads.heads import LanguageModelHead


class EncoderDecoderModel(VirtualTokens, Seq2SeqModel):
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
        self,
        ids: Tensor,
        *,
        source: Tensor,
        source_valid: Tensor,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        read = self.encode(source, source_valid, recorder=recorder)
        positions = TokenPositions.of_row(ids.shape[1], device=ids.device)
        memory = self._memory(read, source_valid)
        hidden = self._hidden(ids, positions, memory, mask=causal(), recorder=recorder)
        if recorder is not None and self.front.length:
            keys = {"attention": ids.shape[1], "cross_attention": source.shape[1]}
            keep_tokens(recorder, side="decoder.", queries=ids.shape[1], keys=keys)
        return hidden

    def encode(
        self, source: Tensor, valid: Tensor, *, recorder: AttentionRecorder | None = None
    ) -> Tensor:
        """(b,s) -> (b,s,w), with a prompt (b,p+s,w); `valid` (b,s) is True where a place holds a
        token."""
        tokens = source.shape[1]
        positions = self.front.positions(TokenPositions.of_row(tokens, device=source.device))
        check_room(positions, self.source_embedding, reach=self.reach)
        mask = bidirectional() if bool(valid.all()) else padding(valid)
        x: Tensor = self.source_embedding(source, positions.last(tokens))
        y: Tensor = self.encoder(
            self.behind_prompt(x, self.source_embedding, positions),
            mask=self.front.mask(mask, keys=positions.ids.shape[1], device=x.device),
            positions=positions,
            recorder=inside(recorder, "encoder"),
        )
        if recorder is not None and positions.virtual:
            keep_tokens(recorder, side="encoder.", queries=tokens, keys={"attention": tokens})
        return y

    def new_cache_for(self, source: Tensor, valid: Tensor) -> ModelCache:
        read = self.encode(source, valid)
        cache = self.decoder.new_cache(self.context, source_places=read.shape[1])
        cache.source, cache.source_valid = read, valid
        return cache

    def step(self, ids: Tensor, *, valid: Tensor, cache: ModelCache) -> Tensor:
        """Read new target tokens (b,i) after those in the cache; scores at each, (b,i,v)."""
        assert cache.source is not None
        assert cache.source_valid is not None
        positions = TokenPositions.of_padded(valid)
        mask = causal() if positions.in_order else causal() & padding(valid)
        memory = self._memory(cache.source, cache.source_valid)
        y: Tensor = self.head(self._hidden(ids, positions, memory, mask=mask, cache=cache))
        return y

    def audit_subject(self) -> Subject:
        subject = audited_writer(
            self,
            name="encoder-decoder",
            vocabulary=self.embedding.tokens.num_embeddings,
            embedding="embedding.tokens",
            weights={"recorder": AttentionRecorder},
        )
        return replace(subject, longest=self.context)

    def _memory(self, read: Tensor, valid: Tensor) -> Memory:
        """What the target looks at: all real places of the source, and what stands before them."""
        keys = self.front.length + valid.shape[1]
        return Memory(read, self.front.mask(cross(valid), keys=keys, device=valid.device))

    def _hidden(
        self,
        ids: Tensor,
        positions: TokenPositions,
        source: Memory,
        *,
        mask: Mask,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        front = self.front_of(self.prefix_length)
        positions = front.positions(positions)
        check_room(positions, self.embedding, reach=self.reach)
        x: Tensor = self.embedding(ids, positions.last(ids.shape[1]))
        y: Tensor = self.decoder(
            x,
            mask=front.mask(mask, keys=positions.ids.shape[1], device=x.device),
            positions=positions,
            source=source,
            cache=cache,
            recorder=inside(recorder, "decoder"),
        )
        return y
