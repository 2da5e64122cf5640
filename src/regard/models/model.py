"""What every model here owes to training, measuring and auditing, whatever it is made of.

Shapes: b batch, t place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from regard.audits.subject import Subject
from regard.batch import Batch
from regard.models.blocks.recorder import AttentionRecorder
from regard.models.loss import LossTerm


class Model(nn.Module, ABC):
    context: int
    "Places it sees at once."
    sees: str = "causal"
    "The mask that a place's influence has to keep to, by name."
    base_apart: bool = False
    "Whether what is frozen lies in the base it was adapted from, and is not saved with it."

    @property
    def unread(self) -> tuple[str, ...]:
        """Parts that no loss of its passes, by how the names of their parameters begin."""
        return ()

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        """The named loss terms of a batch."""

    @abstractmethod
    def losses(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        """−log p(target) at each place, in nats, (b,t); a recorder takes the attention weights."""

    @abstractmethod
    def audit_subject(self) -> Subject:
        """How the trust audits look at it."""
