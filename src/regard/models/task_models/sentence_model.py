"""Models that give each text one vector; where they learn, of length 1, so that products of
vectors are cosines.

    contrast   loss_i = −½ (log softmax_j(s_ij)_i + log softmax_j(s_ji)_i)    s_ij = q_i · d_j / τ
    likeness   loss_i = (a_i · b_i − y_i)²      y = how alike people say the two texts are, 0 to 1

In `contrast` each query has to find its own document among all of its batch, and each document its
query: the other rows are the negatives, so a larger batch asks more (van den Oord, Li and Vinyals,
2018; Karpukhin et al., 2020; both ways as in Radford et al., 2021). Other rows that have the same
query or the same document are no negatives. `likeness` is the regression of Reimers and Gurevych,
2019, "Sentence-BERT".

A batch holds the first text of each row in `ids` and the second in `source`; the same body reads
both. Shapes: b batch, t place, w model width. `valid`: True = a token.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.batch import Batch
from regard.core.errors import UserError
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.heads.heads import PooledHead, SentenceHead
from regard.models.loss import LossTerm
from regard.models.task_models.task_model import TaskModel


class SentenceModel(TaskModel[PooledHead]):
    """A vector for each text."""

    def encode(self, batch: Batch) -> Tensor:
        """(b,w): the vectors of the first texts."""
        y: Tensor = self.head(self.vectors(batch), batch.valid)
        return y.float()

    def both(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(b,w) each: the vectors of first and second texts."""
        assert batch.source is not None
        assert batch.source_valid is not None
        second = replace(batch, ids=batch.source, valid=batch.source_valid, segments=None)
        return self.encode(batch), self.encode(second)


class SentenceEncoder(SentenceModel):
    """Gives the vectors that its checkpoint gave, and learns nothing here."""

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        raise UserError(
            "this model reads texts as it was imported, so it has no loss",
            topic="model",
            hint='Train one with task.kind = "retrieval" or "similarity".',
        )


class ContrastiveModel(SentenceModel):
    """Learns which texts belong together; labels (b,2) number the query and the document."""

    def __init__(
        self, body: SequenceModel, head: SentenceHead, *, temperature: float, seed: int
    ) -> None:
        super().__init__(body, head, seed=seed)
        self.temperature = temperature

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        assert batch.labels is not None
        queries, documents = self.both(batch)
        scores = queries @ documents.T / self.temperature
        losses = contrast_losses(scores, batch.labels)
        counts = batch.weights.sum(dim=1)
        return {"contrast": LossTerm((losses * counts).sum(), counts.sum())}


class SimilarityModel(SentenceModel):
    """Learns how alike two texts are; labels (b,1) say it from 0 to 1."""

    def __init__(self, body: SequenceModel, head: SentenceHead, *, seed: int) -> None:
        super().__init__(body, head, seed=seed)

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        assert batch.labels is not None
        losses = (self.cosines(batch) - batch.labels[:, 0]) ** 2
        return {"likeness": LossTerm(losses.sum(), batch.weights.sum())}

    def cosines(self, batch: Batch) -> Tensor:
        """(b)"""
        first, second = self.both(batch)
        return (first * second).sum(dim=1)


def contrast_losses(scores: Tensor, labels: Tensor) -> Tensor:
    """(b): scores (b,b) of each query with each document, labels (b,2) of which each is one."""
    query, document = labels.unbind(dim=1)
    same = (query[:, None] == query) | (document[:, None] == document)
    same.fill_diagonal_(False)  # what belongs together in the row itself is the answer
    scores = scores.masked_fill(same, -torch.inf)
    answer = torch.arange(len(scores), device=scores.device)
    ways = (F.cross_entropy(way, answer, reduction="none") for way in (scores, scores.T))
    return 0.5 * sum(ways, torch.zeros_like(scores[:, 0]))
