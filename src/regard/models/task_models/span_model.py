"""Extractive question answering: the start and end of the answer in a passage, or [CLS] for none.

    null score  S·C + E·C at [CLS]        best span  max S·T_i + E·T_j,  i ≤ j < i + max_length
    loss = ½ (−log p_start(true start) − log p_end(true end)),  each softmax over [CLS] and passage

Devlin et al., 2019, "BERT", section 4.3. Rows are `[CLS] question [SEP] passage [SEP]`: answers lie
in the passage, never in the question or on special tokens, in training as in search.
Shapes: b batch, t position. Masks and `valid`: True = may attend, a token.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.batch import Batch
from regard.models.heads.task_heads import SpanHead, SpanLogits
from regard.models.loss import LossTerm
from regard.models.task_models.task_model import TaskModel

NULL_POSITION = 0
"The position of [CLS]: start and end of the null answer."


class SpanPredictions(NamedTuple):
    """The best span of each row, (b) each; a row without a passage has a score of −∞."""

    first: Tensor
    last: Tensor
    score: Tensor
    null_score: Tensor
    logprob: Tensor
    "Log-probability of the best span, under the softmax over starts and the one over ends."
    null_logprob: Tensor
    loss: Tensor
    "Of the labelled span."


class SpanModel(TaskModel[SpanHead]):
    """Start and end of the answer in each row."""

    entry_points: ClassVar[tuple[str, ...]] = ("hidden_states", "logits", "predict")

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        losses = span_losses(self.logits(batch), _labels(batch))
        return {"span": LossTerm(losses.sum(), batch.weights.sum())}

    def logits(self, batch: Batch) -> SpanLogits:
        """(b,t) each; −∞ where no answer may start or end."""
        allowed = passage_mask(batch)
        allowed[:, NULL_POSITION] = True
        start, end = self.head(self.hidden_states(batch), allowed)
        return SpanLogits(start.float(), end.float())

    @torch.inference_mode()
    def predict(self, batch: Batch, *, max_length: int) -> SpanPredictions:
        """The best span of each row beside the null score; `max_length` counts tokens."""
        logits = self.logits(batch)
        start, end = logits
        passage = SpanLogits(*(_without_null(side) for side in logits))
        first, last, score = best_spans(passage, max_length=max_length)
        log_normaliser = start.logsumexp(dim=1) + end.logsumexp(dim=1)
        null = start[:, NULL_POSITION] + end[:, NULL_POSITION]
        return SpanPredictions(
            first,
            last,
            score,
            null,
            logprob=score - log_normaliser,
            null_logprob=null - log_normaliser,
            loss=span_losses(logits, _labels(batch)),
        )


def span_losses(logits: SpanLogits, labels: Tensor) -> Tensor:
    """(b): half the loss of the start plus half that of the end; labels (b,2)."""
    sides = zip(logits, labels.unbind(dim=1), strict=True)
    return sum(
        (0.5 * F.cross_entropy(side, label, reduction="none") for side, label in sides),
        torch.zeros_like(logits.start[:, 0]),
    )


def best_spans(logits: SpanLogits, *, max_length: int) -> tuple[Tensor, Tensor, Tensor]:
    """First position, last position and score of each row's best span of at most `max_length`
    tokens.

    One length after the other, so memory stays O(b·t); ties go to the shortest, then the first.
    """
    start, end = logits
    rows, positions = start.shape
    best = start.new_full((rows,), -torch.inf)
    first = torch.zeros(rows, dtype=torch.int64, device=start.device)
    last = first.clone()
    for offset in range(min(max_length, positions)):
        score, position = (start[:, : positions - offset] + end[:, offset:]).max(dim=1)
        better = score > best
        best = torch.where(better, score, best)
        first = torch.where(better, position, first)
        last = torch.where(better, position + offset, last)
    return first, last, best


def passage_mask(batch: Batch) -> Tensor:
    """(b,t): True at the tokens of the second segment, without its final [SEP]."""
    assert batch.segments is not None
    inside = batch.valid & (batch.segments == 1)
    final = batch.valid.sum(dim=1, keepdim=True) - 1
    return inside.scatter(1, final, False)


def _without_null(logits: Tensor) -> Tensor:
    masked = logits.clone()
    masked[:, NULL_POSITION] = -torch.inf
    return masked


def _labels(batch: Batch) -> Tensor:
    assert batch.labels is not None
    return batch.labels
