"""Sequence-to-sequence models: encode a source sequence, decode a target sequence from it.

Shapes: b batch, s source position, t target position, w model width, v vocabulary. `valid`: True =
a token.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TypedDict

from torch import Tensor

from regard.attention.cache import ModelCache
from regard.batch import Batch
from regard.core.errors import UserError
from regard.models.architectures.source_bound_decoder import SourceBoundDecoder
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.loss import LossTerm
from regard.models.model import Model


class Seq2SeqModel(Model):
    head: LanguageModelHead

    @abstractmethod
    def hidden_states(
        self,
        ids: Tensor,
        *,
        source: Tensor,
        source_valid: Tensor,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """(b,t), (b,s) -> (b,t,w): the decoder's hidden state at each target position."""

    @abstractmethod
    def new_cache_for(self, source: Tensor, valid: Tensor) -> ModelCache:
        """Encode the source (b,s) and allocate the decoder's cache."""

    @abstractmethod
    def step(self, ids: Tensor, *, valid: Tensor, cache: ModelCache) -> Tensor:
        """Decode new target tokens (b,i) after those in the cache; logits at each, (b,i,v)."""

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        term = self.head.loss_term(
            self.hidden_states(batch.ids, **_source_arguments(batch)),
            targets=batch.targets,
            weights=batch.weights,
            smoothing=batch.smoothing if self.training else 0.0,
        )
        return {"token": term}

    def losses(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        x = self.hidden_states(batch.ids, **_source_arguments(batch), recorder=recorder)
        return self.head.losses(x, targets=batch.targets)

    def logits(
        self,
        ids: Tensor,
        *,
        source: Tensor,
        source_valid: Tensor,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """(b,t) -> (b,t,v)"""
        x = self.hidden_states(ids, source=source, source_valid=source_valid, recorder=recorder)
        y: Tensor = self.head(x)
        return y

    def bind_source(self, source: Tensor, valid: Tensor) -> SourceBoundDecoder:
        """This model as a decoder for these source sequences, (b,s), padded on the right."""
        return SourceBoundDecoder(self, source, valid)


class _SourceArguments(TypedDict):
    source: Tensor
    source_valid: Tensor


def _source_arguments(batch: Batch) -> _SourceArguments:
    if batch.source is None or batch.source_valid is None:
        raise UserError(
            "this model decodes from a source sequence, and the objective gives none",
            topic="objective",
            hint='Set objective = "prefix".',
        )
    return {"source": batch.source, "source_valid": batch.source_valid}
