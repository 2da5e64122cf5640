"""A model over single rows of tokens: what decoders and encoders share.

They differ in what a place may see of its row. Rows may hold several documents, which see each
other or are kept apart. An adapter may put virtual places before every row (`virtual.py`).
Shapes: b batch, t place, w model width, v vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from regard.attention.cache import ModelCache
from regard.attention.masks.mask import Mask, same_document
from regard.attention.token_positions import TokenPositions
from regard.audits.subject import Subject
from regard.batch import Batch
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.recorder import AttentionRecorder
from regard.models.blocks.stack import Stack
from regard.models.blocks.virtual_tokens import VirtualTokens, check_room, keep_tokens
from regard.models.heads.heads import LanguageModelHead, Pooler
from regard.models.model import Model

DOCUMENT_PLACES = 3
"Of the documents in rows that are audited for whether they are kept apart."


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
    def unread(self) -> tuple[str, ...]:
        return ("pooler.",)  # it is there for the head of a task

    @abstractmethod
    def standing(self, ids: Tensor, valid: Tensor | None) -> tuple[TokenPositions, Mask]:
        """Where tokens stand and what each may see; `valid` (b,t) is True where there is one."""

    def losses(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        x = self.read(batch, recorder=recorder)
        return self.head.losses(x, targets=batch.targets)

    def logits(
        self, ids: Tensor, *, valid: Tensor | None = None, recorder: AttentionRecorder | None = None
    ) -> Tensor:
        """(b,t) -> (b,t,v); `valid` (b,t) is True where a place holds a token; a recorder takes
        the attention weights."""
        y: Tensor = self.head(self.encode(ids, valid=valid, recorder=recorder))
        return y

    def encode(
        self, ids: Tensor, *, valid: Tensor | None = None, recorder: AttentionRecorder | None = None
    ) -> Tensor:
        """(b,t) -> (b,t,w): the vectors that heads work on."""
        positions, mask = self.standing(ids, valid)
        return self.hidden(ids, positions, mask=mask, recorder=recorder)

    def read(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        """(b,t,w): what stands at each place of a batch, as it is trained."""
        _, mask = self.standing(batch.ids, batch.valid)
        if batch.segments is not None and not self.across_documents:
            mask = mask & same_document(batch.segments)
        return self.through(batch, mask=mask, recorder=recorder)

    def through(
        self,
        batch: Batch,
        *,
        mask: Mask,
        texts: Tensor | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """(b,t,w): a batch, embedded and through the stack under this mask; `texts` (b,t) says
        which text of its row a place belongs to, where that is embedded too."""
        positions = TokenPositions.of_row(
            batch.ids.shape[1],
            device=batch.ids.device,
            segments=batch.segments,
            modalities=batch.modalities,
        )
        return self.hidden(batch.ids, positions, mask=mask, texts=texts, recorder=recorder)

    def hidden(
        self,
        ids: Tensor,
        positions: TokenPositions,
        *,
        mask: Mask,
        texts: Tensor | None = None,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        positions = self.front.positions(positions)
        check_room(positions, self.embedding, reach=self.reach)
        x = self.embedding(ids, positions.last(ids.shape[1]), texts)
        return self.run(x, positions, mask=mask, cache=cache, recorder=recorder)

    def run(
        self,
        x: Tensor,
        positions: TokenPositions,
        *,
        mask: Mask,
        cache: ModelCache | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """(b,t,w): embedded tokens through the stack, behind what stands before each row; `positions`
        are of all, `mask` of the tokens alone."""
        tokens = x.shape[1]
        if cache is None or not cache.length:
            x = self.behind_prompt(x, self.embedding, positions)
        seen = self._seen(mask, positions)
        y: Tensor = self.stack(x, mask=seen, positions=positions, cache=cache, recorder=recorder)
        if recorder is not None and positions.virtual:
            keep_tokens(recorder, side="", queries=tokens, keys={"attention": tokens})
        return y[:, -tokens:]

    def _seen(self, mask: Mask, positions: TokenPositions) -> Mask:
        ids = positions.ids
        whole = self.front.mask(mask, keys=ids.shape[1], device=ids.device)
        if not positions.virtual or self.across_documents or self.sees == "causal":
            return whole
        # What reads the whole row would tell documents of each other, so a prompt reads itself.
        virtual = positions.virtual
        alone = Mask(lambda b, h, i, j: (i >= virtual) | (j < virtual), "virtual places alone")
        return whole & alone

    def audit_subject(self) -> Subject:
        return Subject(
            type(self).__name__,
            lambda model, ids, valid: model.logits(ids, valid=valid),
            module=self,
            vocabulary=self.embedding.tokens.num_embeddings,
            longest=self.context,
            embedding="embedding.tokens",
            takes_valid=True,
            run_with_weights=lambda model, ids: model.logits(ids, recorder=AttentionRecorder()),
        )

    def audit_subject_apart(self) -> Subject:
        """How it reads rows of several documents, which `document_of` numbers."""

        def run(model: SequenceModel, ids: Tensor, valid: Tensor | None) -> Tensor:
            segments = document_of(ids.shape[1]).to(ids.device).expand(len(ids), -1)
            y: Tensor = model.head(model.read(_row_batch(ids, segments)))
            return y

        return Subject(
            f"{type(self).__name__}, documents kept apart",
            run,
            module=self,
            vocabulary=self.embedding.tokens.num_embeddings,
            longest=self.context,
            embedding="embedding.tokens",
        )


def document_of(positions: int) -> Tensor:
    """(t): the documents of an audited row, a few places each."""
    return torch.arange(positions) // DOCUMENT_PLACES


def _row_batch(ids: Tensor, segments: Tensor) -> Batch:
    return Batch(
        ids=ids,
        targets=ids,
        weights=torch.ones_like(ids, dtype=torch.float32),
        valid=torch.ones_like(ids, dtype=torch.bool),
        segments=segments,
        rows=tuple(range(len(ids))),
    )
