"""A model that reads a source whole and writes a target from it: what all such models share.

Shapes: b batch, s source place, t target place, w model width, v vocabulary. `valid`: True = a
token.
"""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from regard.attention.cache import ModelCache
from regard.batch import Batch
from regard.core.errors import UserError
from regard.models.architectures.source_bound import SourceBoundDecoder
from regard.models.blocks.recorder import AttentionRecorder
from regard.models.heads.heads import LanguageModelHead
from regard.models.loss import LossTerm
from regard.models.model import Model


class Seq2SeqModel(Model):
    head: LanguageModelHead

    @abstractmethod
    def target(
        self,
        ids: Tensor,
        *,
        source: Tensor,
        source_valid: Tensor,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """(b,t), (b,s) -> (b,t,w): what stands at each place of the target."""

    @abstractmethod
    def new_cache_for(self, source: Tensor, valid: Tensor) -> ModelCache: ...

    @abstractmethod
    def step(self, ids: Tensor, *, valid: Tensor, cache: ModelCache) -> Tensor:
        """Read new target tokens (b,i) after those in the cache; scores at each, (b,i,v)."""

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        term = self.head.term(
            self._read(batch, None),
            targets=batch.targets,
            weights=batch.weights,
            smoothing=batch.smoothing if self.training else 0.0,
        )
        return {"token": term}

    def losses(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        x = self._read(batch, recorder)
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
        x = self.target(ids, source=source, source_valid=source_valid, recorder=recorder)
        y: Tensor = self.head(x)
        return y

    def given(self, source: Tensor, valid: Tensor) -> SourceBoundDecoder:
        """This model as a writer from these sources, (b,s), padded on the right."""
        return SourceBoundDecoder(self, source, valid)

    def _read(self, batch: Batch, recorder: AttentionRecorder | None) -> Tensor:
        if batch.source is None or batch.source_valid is None:
            raise UserError(
                "this model writes from a source, and the objective gives it none",
                topic="objective",
                hint='Set objective = "prefix".',
            )
        return self.target(
            batch.ids, source=batch.source, source_valid=batch.source_valid, recorder=recorder
        )
