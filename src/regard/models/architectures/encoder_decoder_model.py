"""The encoder-decoder Transformer.

    memory = encoder(source)        p(y_t | y_<t, source) from decoder(y_<t, memory)

The decoder attends to the memory by cross-attention. A soft prompt stands before the source, and
its encoder outputs are part of the memory; a prefix stands before both sequences
(`virtual_tokens.py`).
Shapes: b batch, s source position, t target position, p virtual tokens, w model width, v
vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from regard.attention.cache import ModelCache
from regard.attention.masks.mask import Mask, cross
from regard.attention.token_positions import TokenPositions
from regard.batch import RowLayout
from regard.models.architectures.seq2seq_model import Seq2SeqModel, memory_of, source_of
from regard.models.blocks.attention_recorder import AttentionRecorder, scoped
from regard.models.blocks.block import Memory
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.stack import Stack
from regard.models.blocks.virtual_tokens import VirtualTokens, check_positions, crop_to_tokens
from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.inputs import ModelInputs, bidirectional_rows, causal_rows


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

    @property
    def stacks(self) -> Mapping[str, Stack]:
        return {"encoder": self.encoder, "decoder": self.decoder}

    def hidden_states(
        self,
        inputs: ModelInputs,
        *,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        ids = inputs.ids
        if cache is None:
            source, source_valid = source_of(inputs)
            x, positions, mask = self._embed_source(source, source_valid, inputs.source_layout)
            encoded = self.encoder(
                x, mask=mask, positions=positions, recorder=scoped(recorder, "encoder")
            )
        else:
            encoded, source_valid = memory_of(cache)
        x, positions, mask = self._embed_target(inputs, cache)
        y: Tensor = self.decoder(
            x,
            mask=mask,
            positions=positions,
            memory=self._memory(encoded, source_valid),
            cache=cache,
            recorder=scoped(recorder, "decoder"),
        )
        if recorder is not None and self.virtual_prefix.length:
            tokens, targets = source_valid.shape[1], ids.shape[1]
            crop_to_tokens(recorder, side="encoder.", queries=tokens, keys={"attention": tokens})
            keys = {"attention": targets, "cross_attention": tokens}
            crop_to_tokens(recorder, side="decoder.", queries=targets, keys=keys)
        return y

    def encode(self, source: Tensor, valid: Tensor, layout: RowLayout | None = None) -> ModelCache:
        x, positions, mask = self._embed_source(source, valid, layout)
        encoded = self.encoder(x, mask=mask, positions=positions)
        cache = self.decoder.new_cache(self.context, memory_length=encoded.shape[1])
        cache.memory, cache.memory_valid = encoded, valid
        return cache

    def _memory(self, encoded: Tensor, valid: Tensor) -> Memory:
        """The encoder's output with its mask: source tokens and the virtual tokens before them."""
        prefix = self.virtual_prefix
        keys = prefix.length + valid.shape[1]
        return Memory(encoded, prefix.mask(cross(valid), keys=keys, device=valid.device))

    def _embed_source(
        self, source: Tensor, valid: Tensor, layout: RowLayout | None
    ) -> tuple[Tensor, TokenPositions, Mask]:
        """The encoder's inputs (b,p+s,w), prompt included, with their positions and mask."""
        tokens, prefix = source.shape[1], self.virtual_prefix
        _, mask = bidirectional_rows(valid, length=tokens, device=source.device, layout=layout)
        positions = prefix.positions(TokenPositions.of_row(tokens, device=source.device))
        check_positions(positions, self.source_embedding, max_positions=self.max_positions)
        x: Tensor = self.source_embedding(source, positions.last(tokens))
        x = self.prepend_prompt(x, self.source_embedding, positions)
        return x, positions, prefix.mask(mask, keys=positions.ids.shape[1], device=x.device)

    def _embed_target(
        self, inputs: ModelInputs, cache: ModelCache | None
    ) -> tuple[Tensor, TokenPositions, Mask]:
        """The decoder's inputs (b,t,w), with their positions and mask."""
        ids, prefix = inputs.ids, self.virtual_prefix_of_length(self.prefix_length)
        length = ids.shape[1]
        if cache is not None and cache.length:
            length += cache.length - prefix.length
        positions, mask = causal_rows(
            inputs.valid, length=length, device=ids.device, layout=inputs.layout
        )
        positions = prefix.positions(positions)
        check_positions(positions, self.embedding, max_positions=self.max_positions)
        x: Tensor = self.embedding(ids, positions.last(ids.shape[1]))
        return x, positions, prefix.mask(mask, keys=positions.ids.shape[1], device=x.device)
