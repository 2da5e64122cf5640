"""A task model: the body of a pretrained sequence model with a task head in place of its own.

Shapes: b batch, t position, w model width, c labels. `valid`: True = a token. Masks: True = may
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
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.heads.task_heads import ClassificationHead
from regard.models.init_weights import init_weights
from regard.models.loss import LossTerm
from regard.models.model import Model

Head = TypeVar("Head", bound=nn.Module)


class TaskModel(Model, Generic[Head]):
    """A body and a freshly initialised head on its hidden states."""

    def __init__(self, body: SequenceModel, head: Head, *, seed: int) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.context = body.context
        self.visibility = body.visibility
        init_weights(head, seed=seed, layers=1)

    @property
    def uses_pooler(self) -> bool:
        """Whether the head's input goes through the body's pooler."""
        return False

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        pretraining_heads = ("body.head.", "body.boundary.")
        return pretraining_heads if self.uses_pooler else (*pretraining_heads, "body.pooler.")

    def hidden_states(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        """(b,t,w); the texts of a row attend to each other, even if the body keeps documents
        apart."""
        _, mask = self.body.positions_and_mask(batch.ids, batch.valid)
        embedded = self.body.embed_batch(batch, mask=mask, segments=batch.segments)
        return self.body.hidden_states(embedded, recorder=recorder)

    def losses(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        raise UserError(
            "this model has the head of a task and predicts no tokens, so it has no token losses",
            topic="model",
            hint="Use the model it was initialised from.",
        )

    def audit_subject(self) -> Subject:
        """The body, position by position; gradients are checked for the whole model, by the task's
        loss."""
        body = self.body.audit_subject()
        return replace(body, name=f"{body.name}, below the task head", trained_module=self)


class SequenceClassifier(TaskModel[ClassificationHead]):
    """A label for each sequence."""

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        assert batch.labels is not None
        logits = self.logits(batch)
        total = F.cross_entropy(logits, batch.labels[:, 0], reduction="sum")
        return {"label": LossTerm(total, batch.weights.sum())}

    @property
    def uses_pooler(self) -> bool:
        return self.body.pooler is not None and self.head.pooling == "first"

    def logits(self, batch: Batch) -> Tensor:
        """(b,c)"""
        pooled = self.head.pool(self.hidden_states(batch), batch.valid)
        if self.body.pooler is not None and self.uses_pooler:
            pooled = self.body.pooler(pooled)
        y: Tensor = self.head.labels(pooled)
        return y

    @torch.inference_mode()
    def logprobs(self, batch: Batch) -> Tensor:
        """(b,c): the log-probability of each label."""
        return self.logits(batch).log_softmax(dim=-1)
