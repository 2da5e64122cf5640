"""Sentence embedding models: one vector per text, of L2 norm 1 in training, so dot products are
cosines.

    contrastive   loss_i = −½ (log softmax_j(s_ij)_i + log softmax_j(s_ji)_i)   s_ij = q_i · d_j / τ
    similarity    loss_i = (a_i · b_i − y_i)²      y = rated similarity of the two texts, 0 to 1

Contrastive: each query is matched with its own document among all of the batch, and each document
with its query. The other rows are in-batch negatives, so a larger batch is a harder problem (van
den Oord, Li and Vinyals, 2018; Karpukhin et al., 2020; both directions as in Radford et al.,
2021). Rows with the same query or the same document are no negatives. Similarity is the regression
of Reimers and Gurevych, 2019, "Sentence-BERT".

A batch holds the first text of each pair in `ids` and the second in `source`; the same body
encodes both. Shapes: b batch, t position, w model width. `valid`: True = a token.
"""

from __future__ import annotations

from typing import ClassVar, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.batch import Batch
from regard.core.errors import UserError
from regard.models.heads.task_heads import PooledHead, SentenceHead
from regard.models.loss import LossTerm
from regard.models.model import Model, TokenModel
from regard.models.task_models.rank_gather import gather_rows, own_rows
from regard.models.task_models.task_model import TaskModel


class SentenceModel(TaskModel[PooledHead]):
    """A sentence embedding for each text."""

    entry_points: ClassVar[tuple[str, ...]] = ("hidden_states", "encode", "encode_pairs")
    embeds_texts: ClassVar = True

    def encode(self, batch: Batch) -> Tensor:
        """(b,w): the embeddings of the first texts."""
        y: Tensor = self.head(self.hidden_states(batch), batch.valid)
        return y.float()

    def encode_pairs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(b,w) each: the embeddings of first and second texts."""
        return self.encode(batch), self.encode(batch.of_sources())


def gives_sentence_embeddings(model: Model) -> TypeGuard[SentenceModel]:
    return model.embeds_texts


class SentenceEncoder(SentenceModel):
    """An imported encoder with the pooling of its checkpoint; it has no loss."""

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        raise UserError(
            "this model embeds texts as it was imported, so it has no loss",
            topic="model",
            hint='Train one with task.kind = "retrieval" or "similarity".',
        )


class ContrastiveModel(SentenceModel):
    """Trained on pairs with in-batch negatives; labels (b,2) number the query and the document."""

    def __init__(
        self, body: TokenModel, head: SentenceHead, *, temperature: float, seed: int
    ) -> None:
        super().__init__(body, head, seed=seed)
        self.temperature = temperature

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        assert batch.labels is not None
        queries, documents = (gather_rows(x, batch) for x in self.encode_pairs(batch))
        scores = queries @ documents.T / self.temperature
        losses = contrastive_losses(scores, gather_rows(batch.labels, batch))[own_rows(batch)]
        counts = batch.weights.sum(dim=1)
        return {"contrastive": LossTerm((losses * counts).sum(), counts.sum())}


class SimilarityModel(SentenceModel):
    """Trained on rated similarity; labels (b,1) hold the rating, from 0 to 1."""

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        assert batch.labels is not None
        losses = (cosines(*self.encode_pairs(batch)) - batch.labels[:, 0]) ** 2
        return {"similarity": LossTerm(losses.sum(), batch.weights.sum())}


def cosines(first: Tensor, second: Tensor) -> Tensor:
    """(b,w), (b,w) of norm 1 -> (b): the cosine similarity of each pair."""
    return (first * second).sum(dim=1)


def contrastive_losses(scores: Tensor, labels: Tensor) -> Tensor:
    """(b): scores (b,b) of queries × documents, labels (b,2): ids of each row's query and
    document."""
    query, document = labels.unbind(dim=1)
    duplicates = (query[:, None] == query) | (document[:, None] == document)
    duplicates.fill_diagonal_(False)  # the positive pair
    scores = scores.masked_fill(duplicates, -torch.inf)
    positive = torch.arange(len(scores), device=scores.device)
    losses = (
        F.cross_entropy(direction, positive, reduction="none") for direction in (scores, scores.T)
    )
    return 0.5 * sum(losses, torch.zeros_like(scores[:, 0]))
