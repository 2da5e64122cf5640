"""A task model: the body of a pretrained model with a task head in place of its own.

Shapes: b batch, t position, w model width, c labels. `valid`: True = a token. Masks: True = may
attend.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.batch import Batch
from regard.core.process.host import widest_float
from regard.models.heads.task_heads import ClassificationHead, TokenHead, ValueHead
from regard.models.init_weights import init_weights
from regard.models.inputs import ModelInputs
from regard.models.loss import LossTerm
from regard.models.model import Model, TokenModel

Head = TypeVar("Head", bound=nn.Module)


class TaskModel(Model, Generic[Head]):
    """A body and a freshly initialised head on its hidden states."""

    body: TokenModel

    def __init__(self, body: TokenModel, head: Head, *, seed: int) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.context = body.context
        self.visibility = body.visibility
        init_weights(head, seed=seed, layers=1)

    @property
    def task_head(self) -> nn.Module:
        return self.head

    @property
    def uses_pooler(self) -> bool:
        """Whether the head's input goes through the body's pooler."""
        return False

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        pretraining_heads = ("body.head.", "body.boundary.")
        return pretraining_heads if self.uses_pooler else (*pretraining_heads, "body.pooler.")

    def hidden_states(self, batch: Batch) -> Tensor:
        """(b,t,w); the texts of a row attend to each other, even if the body keeps documents
        apart."""
        return self.body.hidden_states(ModelInputs.of_texts(batch))


class SequenceClassifier(TaskModel[ClassificationHead]):
    """A label for each sequence."""

    entry_points: ClassVar[tuple[str, ...]] = ("hidden_states", "logits", "logprobs")

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        return label_loss(self.logits(batch), batch)

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


def label_loss(logits: Tensor, batch: Batch) -> dict[str, LossTerm]:
    """Cross-entropy of the logits (b,c) of a batch."""
    assert batch.labels is not None
    total = F.cross_entropy(logits, batch.labels[:, 0], reduction="sum")
    return {"label": LossTerm(total, batch.weights.sum())}


class SequenceRegressor(TaskModel[ValueHead]):
    """A number for each sequence; labels (b,1) hold the true one, standardised."""

    entry_points: ClassVar[tuple[str, ...]] = ("hidden_states", "values")

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        assert batch.labels is not None
        total = (self.values(batch) - batch.labels[:, 0]).square().sum()
        return {"value": LossTerm(total, batch.weights.sum())}

    @property
    def uses_pooler(self) -> bool:
        return self.body.pooler is not None and self.head.pooling == "first"

    def values(self, batch: Batch) -> Tensor:
        """(b): predicted numbers, standardised as the labels are."""
        pooled = self.head.pool(self.hidden_states(batch), batch.valid)
        if self.body.pooler is not None and self.uses_pooler:
            pooled = self.body.pooler(pooled)
        y: Tensor = self.head.value(pooled)
        return y.squeeze(-1).float()


class TokenTagger(TaskModel[TokenHead]):
    """A tag for each word, at its first token: the positions with a loss weight."""

    entry_points: ClassVar[tuple[str, ...]] = ("hidden_states", "logprobs")

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        logits = self.head(batch.at_scored(self.hidden_states(batch))).float()
        total = F.cross_entropy(logits, batch.at_scored(batch.targets), reduction="sum")
        return {"tag": LossTerm(total, batch.weights.sum())}

    @torch.inference_mode()
    def logprobs(self, batch: Batch) -> list[Tensor]:
        """Of each row (n,c): the log-probability of each tag at its n words."""
        is_word = batch.weights > 0
        logits: Tensor = self.head(self.hidden_states(batch)[is_word])
        logprobs = logits.log_softmax(dim=-1, dtype=widest_float(logits.device))
        return list(torch.split(logprobs, is_word.sum(dim=1).tolist()))
