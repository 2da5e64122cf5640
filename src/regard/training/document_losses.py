"""How well a model tells the tokens of each document of a part, as its objective asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.batch import Batch, Ints, collate
from regard.data.batching import in_order
from regard.objectives import Objective, ScoredExample, Vocabulary

PLACES_AT_ONCE = 2048
"Places that go through the model together: their scores over the vocabulary stay below 100 MB."

OnProgress = Callable[[int, int | None], None]


class Scorer(Protocol):
    """A model that tells the loss at each place of a batch."""

    context: int

    def losses(self, batch: Batch) -> Tensor: ...


@dataclass(frozen=True)
class DocumentLosses:
    """What was told of each document, and how badly."""

    losses: np.ndarray
    "Summed loss in nats."
    tokens: np.ndarray
    "Tokens told."
    counted: list[np.ndarray]
    "Which of a document's tokens (its stop the last) were told: True = told."


@torch.inference_mode()
def document_losses(
    model: Scorer,
    documents: Sequence[Ints],
    objective: Objective,
    *,
    vocabulary: Vocabulary,
    pad: int,
    seed: int = 0,
    device: str = "cpu",
    on_progress: OnProgress = lambda done, total: None,
) -> DocumentLosses:
    """Measure documents (ids without <start>, <stop>); what an objective draws follows from seed
    and number of the document, so two models of one objective tell the same tokens."""
    rows: list[ScoredExample] = []
    owner: list[int] = []
    counted = []
    for number, ids in enumerate(documents):
        generator = np.random.default_rng([seed, number])
        pieces = objective.scored(ids, generator, context=model.context, vocabulary=vocabulary)
        told = np.zeros(len(ids) + 1, dtype=np.bool_)
        for piece in pieces:
            told[piece.tells] = True
        counted.append(told)
        rows.extend(pieces)
        owner.extend([number] * len(pieces))
    losses = np.zeros(len(documents))
    lengths = [len(row.example.inputs) for row in rows]
    done = 0
    for chosen in in_order(lengths, budget=max(PLACES_AT_ONCE, model.context)):
        examples = [rows[index].example for index in chosen]
        batch = collate(examples, pad_id=pad, rows=chosen.tolist()).to(device)
        scored = model.losses(batch).double() * batch.weights
        owners = [owner[index] for index in chosen]
        np.add.at(losses, owners, scored.sum(dim=1).cpu().numpy())
        done += len(chosen)
        on_progress(done, len(rows))
    tokens = np.array([told.sum() for told in counted], dtype=np.int64)
    return DocumentLosses(losses, tokens, counted)
