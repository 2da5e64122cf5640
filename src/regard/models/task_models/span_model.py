"""A model that points at an answer: where in its passage it begins and ends, or at [CLS] for none.

    null score  S·C + E·C at [CLS]        best span  max S·T_i + E·T_j,  i ≤ j < i + longest
    loss = ½ (−log p_start(true start) − log p_end(true end)),  each softmax over [CLS] and passage

Devlin et al., 2019, "BERT", section 4.3. Rows are `[CLS] question [SEP] passage [SEP]`: question
and marks are no place of an answer, in training as in search.
Shapes: b batch, t place. Masks and `valid`: True = may be seen, a token.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.batch import Batch
from regard.models.heads.heads import SpanHead, SpanLogits
from regard.models.loss import LossTerm
from regard.models.task_models.task_model import TaskModel

NULL_POSITION = 0
"Where [CLS] stands: it begins and ends the answer that there is none."


class SpanPredictions(NamedTuple):
    """What each row answers, (b) each; a row without a passage has a score of −∞."""

    first: Tensor
    last: Tensor
    score: Tensor
    null_score: Tensor
    log_share: Tensor
    "The log of how probable the best span is, among all starts and all ends."
    null_log_share: Tensor
    loss: Tensor
    "Of the labelled span."


class SpanModel(TaskModel[SpanHead]):
    """The beginning and the end of an answer in each row."""

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        losses = span_losses(self.scores(batch), _labels(batch))
        return {"span": LossTerm(losses.sum(), batch.weights.sum())}

    def scores(self, batch: Batch) -> SpanLogits:
        """(b,t) each; −∞ where no answer may begin or end."""
        passage = passage_places(batch)
        passage[:, NULL_POSITION] = True
        start, end = self.head(self.vectors(batch), passage)
        return SpanLogits(start.float(), end.float())

    @torch.inference_mode()
    def spans(self, batch: Batch, *, longest: int) -> SpanPredictions:
        """The best span of each row beside the null score; `longest` counts tokens."""
        scores = self.scores(batch)
        start, end = scores
        passage = SpanLogits(*(_without_null(side) for side in scores))
        first, last, score = best_spans(passage, longest=longest)
        total = start.logsumexp(dim=1) + end.logsumexp(dim=1)
        null = start[:, NULL_POSITION] + end[:, NULL_POSITION]
        return SpanPredictions(
            first,
            last,
            score,
            null,
            log_share=score - total,
            null_log_share=null - total,
            loss=span_losses(scores, _labels(batch)),
        )


def span_losses(scores: SpanLogits, labels: Tensor) -> Tensor:
    """(b): half the loss of the start plus half that of the end; labels (b,2)."""
    sides = zip(scores, labels.unbind(dim=1), strict=True)
    return sum(
        (0.5 * F.cross_entropy(side, label, reduction="none") for side, label in sides),
        torch.zeros_like(scores.start[:, 0]),
    )


def best_spans(scores: SpanLogits, *, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """First place, last place and score of each row's best span of at most `longest` places.

    One length after the other, so memory stays O(b·t); of equals the shortest, then the first.
    """
    start, end = scores
    rows, positions = start.shape
    best = start.new_full((rows,), -torch.inf)
    first = torch.zeros(rows, dtype=torch.int64, device=start.device)
    last = first.clone()
    for beyond in range(min(longest, positions)):
        score, place = (start[:, : positions - beyond] + end[:, beyond:]).max(dim=1)
        better = score > best
        best = torch.where(better, score, best)
        first = torch.where(better, place, first)
        last = torch.where(better, place + beyond, last)
    return first, last, best


def passage_places(batch: Batch) -> Tensor:
    """(b,t): True at the tokens of the second text, the [SEP] that closes it left out."""
    assert batch.segments is not None
    inside = batch.valid & (batch.segments == 1)
    closing = batch.valid.sum(dim=1, keepdim=True) - 1
    return inside.scatter(1, closing, False)


def _without_null(scores: Tensor) -> Tensor:
    hidden = scores.clone()
    hidden[:, NULL_POSITION] = -torch.inf
    return hidden


def _labels(batch: Batch) -> Tensor:
    assert batch.labels is not None
    return batch.labels
