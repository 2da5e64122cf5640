"""Models over one token sequence per row: what decoders and encoders share.

They differ in which positions a token may attend to. Packed rows hold several documents, which
attend to each other or are kept apart. An adapter may put virtual tokens before every row
(`virtual_tokens.py`).
Shapes: b batch, t position, p virtual tokens, w model width. Masks: True = may attend.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention.cache import ModelCache
from regard.attention.masks.mask import Mask, same_document
from regard.attention.token_positions import TokenPositions
from regard.batch import RowLayout
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.stack import Stack
from regard.models.blocks.token_history import extend_token_history
from regard.models.blocks.virtual_tokens import VirtualTokens, check_positions, crop_to_tokens
from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.heads.task_heads import Pooler
from regard.models.inputs import ModelInputs
from regard.models.model import TokenModel


class SequenceModel(VirtualTokens, TokenModel):
    entry_points: ClassVar[tuple[str, ...]] = ("hidden_states", "logits")
    cacheable = True
    "False if its attention cannot be cached: then each decode step recomputes the whole row."

    def __init__(
        self,
        embedding: Embedding,
        stack: Stack,
        head: LanguageModelHead,
        *,
        context: int,
        across_documents: bool,
        pooler: Pooler | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.head = head
        self.context = context
        self.across_documents = across_documents
        self.pooler = pooler

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        return ("pooler.",)  # only the head of a task uses it

    @property
    def stacks(self) -> Mapping[str, Stack]:
        return {"stack": self.stack}

    @property
    def keeps_documents_apart(self) -> bool:
        return not self.across_documents

    def hidden_states(
        self,
        inputs: ModelInputs,
        *,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        new_tokens = inputs.ids.shape[1]
        if cache is not None and not self.cacheable:
            inputs, cache = inputs._replace(ids=extend_token_history(cache, inputs.ids)), None
        x, positions, mask = self._embed(inputs, cache)
        tokens = x.shape[1]
        if cache is None or not cache.length:
            x = self.prepend_prompt(x, self.embedding, positions)
        mask = self._mask_with_virtual_tokens(mask, positions)
        y: Tensor = self.stack(x, mask=mask, positions=positions, cache=cache, recorder=recorder)
        if recorder is not None and positions.virtual_tokens:
            crop_to_tokens(recorder, side="", queries=tokens, keys={"attention": tokens})
        return y[:, -new_tokens:]

    @abstractmethod
    def own_positions_and_mask(
        self,
        valid: Tensor | None,
        *,
        length: int,
        device: torch.device,
        layout: RowLayout | None = None,
    ) -> tuple[TokenPositions, Mask]:
        """Positions and mask of rows of this length, cached tokens included; `layout` is that of
        `valid`, where it is known."""

    def _embed(
        self, inputs: ModelInputs, cache: ModelCache | None
    ) -> tuple[Tensor, TokenPositions, Mask]:
        """Embedded tokens (b,t,w), their positions with virtual tokens, the mask without."""
        positions, mask = self._positions_and_mask(inputs, cache)
        positions = self.virtual_prefix.positions(positions)
        check_positions(positions, self.embedding, max_positions=self.max_positions)
        x = self.embedding(inputs.ids, positions.last(inputs.ids.shape[1]), inputs.segments)
        return x, positions, mask

    def _positions_and_mask(
        self, inputs: ModelInputs, cache: ModelCache | None
    ) -> tuple[TokenPositions, Mask]:
        """Positions and mask of tokens alone: the caller's, else the model's own."""
        if inputs.positions is not None and inputs.mask is not None:
            return inputs.positions, inputs.mask
        length, device = inputs.ids.shape[1], inputs.ids.device
        if cache is not None:
            length += cache.length - (self.virtual_prefix.length if cache.length else 0)
        own, mask = self.own_positions_and_mask(
            inputs.valid, length=length, device=device, layout=inputs.layout
        )
        positions = own if inputs.positions is None else inputs.positions
        if inputs.mask is not None:
            return positions, inputs.mask
        packed = inputs.segments is None and positions.segments is not None
        if packed and not self.across_documents:
            assert positions.segments is not None
            return positions, mask & same_document(positions.segments)
        return positions, mask

    def _mask_with_virtual_tokens(self, mask: Mask, positions: TokenPositions) -> Mask:
        ids = positions.ids
        whole = self.virtual_prefix.mask(mask, keys=ids.shape[1], device=ids.device)
        if not positions.virtual_tokens or self.across_documents or self.visibility == "causal":
            return whole
        # A prompt that attended to tokens would leak between documents: it attends to itself alone.
        virtual = positions.virtual_tokens
        alone = Mask(lambda b, h, i, j: (i >= virtual) | (j < virtual), "virtual tokens alone")
        return whole & alone
