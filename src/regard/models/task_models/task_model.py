"""A model that answers about whole rows: the body of a language model under a head of its own.

Shapes: b batch, t place, w model width, c labels. `valid`: True = a token. Masks: True = may
attend.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.audits.subject import Subject
from regard.batch import Batch
from regard.core.errors import UserError
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.recorder import AttentionRecorder
from regard.models.heads.heads import ClassificationHead
from regard.models.init_weights import init_weights
from regard.models.loss import LossTerm
from regard.models.model import Model

Head = TypeVar("Head", bound=nn.Module)


class TaskModel(Model, Generic[Head]):
    """A body whose vectors a head reads; what the body learnt before stays in it."""

    def __init__(self, body: SequenceModel, head: Head, *, seed: int) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.context = body.context
        self.sees = body.sees
        init_weights(head, seed=seed, layers=1)

    @property
    def reads_pooler(self) -> bool:
        """Whether what the head reads goes through the body's pooler."""
        return False

    @property
    def unread(self) -> tuple[str, ...]:
        beside = ("body.head.", "body.boundary.")  # they tell tokens
        return beside if self.reads_pooler else (*beside, "body.pooler.")

    def vectors(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        """(b,t,w); the texts of a row are one row here, even where documents are kept apart."""
        _, mask = self.body.standing(batch.ids, batch.valid)
        return self.body.through(batch, mask=mask, texts=batch.segments, recorder=recorder)

    def losses(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        raise UserError(
            "this model answers about whole rows and tells no tokens, so no token has a loss",
            topic="model",
            hint="Ask the model it was started from.",
        )

    def audit_subject(self) -> Subject:
        """The body, place by place; what can learn is asked of the whole, by the task's loss."""
        below = self.body.audit_subject()
        return replace(below, name=f"{below.name}, below the head of its task", trained=self)


class SequenceClassifier(TaskModel[ClassificationHead]):
    """A label for each row."""

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        assert batch.labels is not None
        scores = self.scores(batch)
        total = F.cross_entropy(scores, batch.labels[:, 0], reduction="sum")
        return {"label": LossTerm(total, batch.weights.sum())}

    @property
    def reads_pooler(self) -> bool:
        return self.body.pooler is not None and self.head.pooling == "first"

    def scores(self, batch: Batch) -> Tensor:
        """(b,c)"""
        pooled = self.head.pooled(self.vectors(batch), batch.valid)
        if self.body.pooler is not None and self.reads_pooler:
            pooled = self.body.pooler(pooled)
        y: Tensor = self.head.labels(pooled)
        return y

    @torch.inference_mode()
    def log_shares(self, batch: Batch) -> Tensor:
        """(b,c): the log of how probable each label is."""
        return self.scores(batch).log_softmax(dim=-1)
