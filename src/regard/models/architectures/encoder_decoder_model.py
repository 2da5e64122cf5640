"""The encoder-decoder Transformer.

    memory = encoder(source)        p(y_t | y_<t, source) from decoder(y_<t, memory)

The decoder attends to the memory by cross-attention. A soft prompt stands before the source, and
its encoder outputs are part of the memory; a prefix stands before both sequences
(`virtual_tokens.py`).
Shapes: b batch, s source position, t target position, p virtual tokens, w model width, v
vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from regard.attention.cache import ModelCache
from regard.attention.masks.mask import Mask, bidirectional, causal, cross, padding
from regard.attention.token_positions import TokenPositions
from regard.audits.subject import Subject
from regard.models.architectures.seq2seq_model import Seq2SeqModel
from regard.models.architectures.source_bound_decoder import seq2seq_audit_subject
from regard.models.blocks.attention_recorder import AttentionRecorder, scoped
from regard.models.blocks.block import Memory
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.stack import Stack
from regard.models.blocks.virtual_tokens import VirtualTokens, check_positions, crop_to_tokens
from regard.models.heads.language_model_head import LanguageModelHead


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
        source_embedding.tie_tokens(embedding)
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.context = context
        self.register_parameter("prompt", None)

    def hidden_states(
        self,
        ids: Tensor,
        *,
        source: Tensor,
        source_valid: Tensor,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        virtual = self.virtual_prefix.length
        x, positions, mask = self._embed_source(source, source_valid)
        encoded = self.encoder(
            x, mask=mask, positions=positions, recorder=scoped(recorder, "encoder")
        )
        positions = TokenPositions.of_row(ids.shape[1], device=ids.device)
        x, positions, mask = self._embed_target(ids, positions, mask=causal())
        y: Tensor = self.decoder(
            x,
            mask=mask,
            positions=positions,
            memory=self._memory(encoded, source_valid),
            recorder=scoped(recorder, "decoder"),
        )
        if recorder is not None and virtual:
            tokens, targets = source.shape[1], ids.shape[1]
            crop_to_tokens(recorder, side="encoder.", queries=tokens, keys={"attention": tokens})
            keys = {"attention": targets, "cross_attention": tokens}
            crop_to_tokens(recorder, side="decoder.", queries=targets, keys=keys)
        return y

    def encode(self, source: Tensor, valid: Tensor) -> Tensor:
        """(b,s) -> (b,s,w), with a prompt (b,p+s,w): the encoder's hidden states; `valid` (b,s) is
        True at tokens."""
        x, positions, mask = self._embed_source(source, valid)
        y: Tensor = self.encoder(x, mask=mask, positions=positions)
        return y

    def new_cache_for(self, source: Tensor, valid: Tensor) -> ModelCache:
        encoded = self.encode(source, valid)
        cache = self.decoder.new_cache(self.context, memory_length=encoded.shape[1])
        cache.memory, cache.memory_valid = encoded, valid
        return cache

    def step(self, ids: Tensor, *, valid: Tensor, cache: ModelCache) -> Tensor:
        assert cache.memory is not None
        assert cache.memory_valid is not None
        positions = TokenPositions.of_padded(valid)
        mask = causal() if positions.in_order else causal() & padding(valid)
        memory = self._memory(cache.memory, cache.memory_valid)
        x, positions, mask = self._embed_target(ids, positions, mask=mask)
        y: Tensor = self.head(
            self.decoder(x, mask=mask, positions=positions, memory=memory, cache=cache)
        )
        return y

    def audit_subject(self) -> Subject:
        subject = seq2seq_audit_subject(
            self,
            name="encoder-decoder",
            vocabulary=self.embedding.tokens.num_embeddings,
            embedding="embedding.tokens",
            weights={"recorder": AttentionRecorder},
        )
        return replace(subject, max_length=self.context)

    def _memory(self, encoded: Tensor, valid: Tensor) -> Memory:
        """The encoder's output with its mask: source tokens and the virtual tokens before them."""
        prefix = self.virtual_prefix
        keys = prefix.length + valid.shape[1]
        return Memory(encoded, prefix.mask(cross(valid), keys=keys, device=valid.device))

    def _embed_source(self, source: Tensor, valid: Tensor) -> tuple[Tensor, TokenPositions, Mask]:
        """The encoder's inputs (b,p+s,w), prompt included, with their positions and mask."""
        tokens, prefix = source.shape[1], self.virtual_prefix
        positions = prefix.positions(TokenPositions.of_row(tokens, device=source.device))
        check_positions(positions, self.source_embedding, max_positions=self.max_positions)
        mask = bidirectional() if bool(valid.all()) else padding(valid)
        x: Tensor = self.source_embedding(source, positions.last(tokens))
        x = self.prepend_prompt(x, self.source_embedding, positions)
        return x, positions, prefix.mask(mask, keys=positions.ids.shape[1], device=x.device)

    def _embed_target(
        self, ids: Tensor, positions: TokenPositions, *, mask: Mask
    ) -> tuple[Tensor, TokenPositions, Mask]:
        """The decoder's inputs (b,t,w), with their positions and mask."""
        prefix = self.virtual_prefix_of_length(self.prefix_length)
        positions = prefix.positions(positions)
        check_positions(positions, self.embedding, max_positions=self.max_positions)
        x: Tensor = self.embedding(ids, positions.last(ids.shape[1]))
        return x, positions, prefix.mask(mask, keys=positions.ids.shape[1], device=x.device)
