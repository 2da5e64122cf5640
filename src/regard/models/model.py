"""The protocol of every model: what training, evaluation and audits call.

Shapes: b batch, t position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from regard.audits.subject import Subject
from regard.batch import Batch
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.loss import LossTerm


class Model(nn.Module, ABC):
    context: int
    "Maximum sequence length in tokens."
    visibility: str = "causal"
    "The mask, by name, that says which positions an output may depend on: causal, bidirectional."
    saves_adapter_only: bool = False
    "Whether checkpoints hold only the trained tensors; the frozen ones stay with the base model."

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        """Name prefixes of parameters that no loss of this model depends on."""
        return ()

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        """The named loss terms of a batch."""

    @abstractmethod
    def losses(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        """−log p(target) at each position in nats, (b,t); a recorder collects attention weights."""

    @abstractmethod
    def audit_subject(self) -> Subject:
        """The model as the audits call it."""
