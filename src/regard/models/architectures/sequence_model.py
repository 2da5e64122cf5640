"""Models over one token sequence per row: what decoders and encoders share.

They differ in which positions a token may attend to. Packed rows hold several documents, which
attend to each other or are kept apart. An adapter may put virtual tokens before every row
(`virtual_tokens.py`).
Shapes: b batch, t position, w model width, v vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.cache import ModelCache
from regard.attention.masks.mask import Mask, same_document
from regard.attention.token_positions import TokenPositions
from regard.audits.subject import Subject
from regard.batch import Batch
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.stack import Stack
from regard.models.blocks.virtual_tokens import VirtualTokens, check_positions, crop_to_tokens
from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.heads.task_heads import Pooler
from regard.models.model import Model

AUDIT_DOCUMENT_LENGTH = 3
"Length of each document in the packed rows of an audit."


class EmbeddedTokens(NamedTuple):
    """What the stack takes: embedded tokens, where they stand and what they may attend to."""

    x: Tensor
    "(b,t,w): tokens alone."
    positions: TokenPositions
    "Virtual tokens included."
    mask: Mask
    "Between tokens alone."


class SequenceModel(VirtualTokens, Model):
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
        self.register_parameter("prompt", None)

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        return ("pooler.",)  # only the head of a task uses it

    @abstractmethod
    def positions_and_mask(self, ids: Tensor, valid: Tensor | None) -> tuple[TokenPositions, Mask]:
        """Token positions and attention mask of rows (b,t); `valid` (b,t) is True at tokens."""

    def losses(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        x = self.hidden_states(self.embed_batch(batch), recorder=recorder)
        return self.head.losses(x, targets=batch.targets)

    def logits(
        self, ids: Tensor, *, valid: Tensor | None = None, recorder: AttentionRecorder | None = None
    ) -> Tensor:
        """(b,t) -> (b,t,v); `valid` (b,t) is True at tokens; a recorder collects the attention
        weights."""
        x = self.hidden_states(self.embed(ids, valid=valid), recorder=recorder)
        y: Tensor = self.head(x)
        return y

    def embed(self, ids: Tensor, *, valid: Tensor | None = None) -> EmbeddedTokens:
        """Rows of tokens (b,t) under the model's own mask; `valid` (b,t) is True at tokens."""
        positions, mask = self.positions_and_mask(ids, valid)
        return self.embed_at(ids, positions, mask=mask)

    def embed_batch(
        self, batch: Batch, *, mask: Mask | None = None, segments: Tensor | None = None
    ) -> EmbeddedTokens:
        """The rows of a batch. Without a mask of the caller, documents of a packed row are kept
        apart unless `across_documents`; `segments` (b,t) select the segment embeddings, if the
        model has any."""
        positions = TokenPositions.of_row(
            batch.ids.shape[1],
            device=batch.ids.device,
            segments=batch.segments,
            modalities=batch.modalities,
        )
        mask = self.batch_mask(batch) if mask is None else mask
        return self.embed_at(batch.ids, positions, mask=mask, segments=segments)

    def batch_mask(self, batch: Batch) -> Mask:
        """The attention mask of a training batch."""
        _, mask = self.positions_and_mask(batch.ids, batch.valid)
        if batch.segments is not None and not self.across_documents:
            return mask & same_document(batch.segments)
        return mask

    def embed_at(
        self,
        ids: Tensor,
        positions: TokenPositions,
        *,
        mask: Mask,
        segments: Tensor | None = None,
    ) -> EmbeddedTokens:
        """Tokens (b,t) at the last of these positions, under this mask."""
        positions = self.virtual_prefix.positions(positions)
        check_positions(positions, self.embedding, max_positions=self.max_positions)
        x = self.embedding(ids, positions.last(ids.shape[1]), segments)
        return EmbeddedTokens(x, positions, mask)

    def hidden_states(
        self,
        embedded: EmbeddedTokens,
        *,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """(b,t,w): the last hidden states, which heads take as input: the embedded tokens through
        the stack, after the virtual tokens."""
        x, positions, mask = embedded
        tokens = x.shape[1]
        if cache is None or not cache.length:
            x = self.prepend_prompt(x, self.embedding, positions)
        mask = self._mask_with_virtual_tokens(mask, positions)
        y: Tensor = self.stack(x, mask=mask, positions=positions, cache=cache, recorder=recorder)
        if recorder is not None and positions.virtual_tokens:
            crop_to_tokens(recorder, side="", queries=tokens, keys={"attention": tokens})
        return y[:, -tokens:]

    def _mask_with_virtual_tokens(self, mask: Mask, positions: TokenPositions) -> Mask:
        ids = positions.ids
        whole = self.virtual_prefix.mask(mask, keys=ids.shape[1], device=ids.device)
        if not positions.virtual_tokens or self.across_documents or self.visibility == "causal":
            return whole
        # A prompt that attended to tokens would leak between documents: it attends to itself alone.
        virtual = positions.virtual_tokens
        alone = Mask(lambda b, h, i, j: (i >= virtual) | (j < virtual), "virtual tokens alone")
        return whole & alone

    def audit_subject(self) -> Subject:
        return Subject(
            type(self).__name__,
            lambda model, ids, valid: model.logits(ids, valid=valid),
            module=self,
            vocabulary=self.embedding.tokens.num_embeddings,
            max_length=self.context,
            embedding="embedding.tokens",
            accepts_padding_mask=True,
            run_with_weights=lambda model, ids: model.logits(ids, recorder=AttentionRecorder()),
        )

    def packed_audit_subject(self) -> Subject:
        """The model over packed rows, whose documents are those of `audit_document_ids`."""

        def run(model: SequenceModel, ids: Tensor, valid: Tensor | None) -> Tensor:
            segments = audit_document_ids(ids.shape[1]).to(ids.device).expand(len(ids), -1)
            x = model.hidden_states(model.embed_batch(_packed_batch(ids, segments)))
            y: Tensor = model.head(x)
            return y

        return Subject(
            f"{type(self).__name__}, documents kept apart",
            run,
            module=self,
            vocabulary=self.embedding.tokens.num_embeddings,
            max_length=self.context,
            embedding="embedding.tokens",
        )


def audit_document_ids(length: int) -> Tensor:
    """(t): the document of each position in a packed row of an audit."""
    return torch.arange(length) // AUDIT_DOCUMENT_LENGTH


def _packed_batch(ids: Tensor, segments: Tensor) -> Batch:
    return Batch(
        ids=ids,
        targets=ids,
        weights=torch.ones_like(ids, dtype=torch.float32),
        valid=torch.ones_like(ids, dtype=torch.bool),
        segments=segments,
        rows=tuple(range(len(ids))),
    )
