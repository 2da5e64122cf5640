"""Loss of each document of a split, over the tokens that the objective scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.batch import Ints, collate
from regard.core.progress import OnProgress, no_progress
from regard.data.batching import sorted_batches
from regard.models.model import Model, weighted_losses
from regard.objectives import Objective, ScoredExample, Vocabulary

MAX_BATCH_POSITIONS = 2048
"Positions of an evaluation batch: their logits over the vocabulary stay below 100 MB."


@dataclass(frozen=True)
class DocumentLosses:
    """Loss and scored tokens of each document."""

    losses: np.ndarray
    "Summed loss in nats."
    tokens: np.ndarray
    "Number of scored tokens."
    is_scored: list[np.ndarray]
    "For each document, which of its tokens (<stop> comes last) are scored: True = scored."


@torch.inference_mode()
def document_losses(
    model: Model,
    documents: Sequence[Ints],
    objective: Objective,
    *,
    vocabulary: Vocabulary,
    pad: int,
    seed: int = 0,
    device: str = "cpu",
    on_progress: OnProgress = no_progress,
) -> DocumentLosses:
    """Score documents (ids without <start>, <stop>); random draws of the objective are a function
    of the seed and the document's index, so two models of one objective score the same tokens."""
    rows: list[tuple[int, ScoredExample]] = []
    is_scored = []
    for document, ids in enumerate(documents):
        generator = np.random.default_rng([seed, document])
        examples = objective.evaluation_examples(
            ids, generator, context=model.context, vocabulary=vocabulary
        )
        scored = np.zeros(len(ids) + 1, dtype=np.bool_)
        for example in examples:
            scored[example.token_indices] = True
        is_scored.append(scored)
        rows.extend((document, example) for example in examples)
    losses = np.zeros(len(documents))
    lengths = [len(row.example.inputs) for _, row in rows]
    done = 0
    for chosen in sorted_batches(lengths, budget=max(MAX_BATCH_POSITIONS, model.context)):
        batch = collate(
            [rows[index][1].example for index in chosen], pad_id=pad, rows=chosen.tolist()
        ).to(device)
        weighted = weighted_losses(model, batch)
        np.add.at(
            losses,
            [rows[index][0] for index in chosen],
            weighted.sum(dim=1).cpu().numpy(),
        )
        done += len(chosen)
        on_progress(done, len(rows))
    tokens = np.array([scored.sum() for scored in is_scored], dtype=np.int64)
    return DocumentLosses(losses, tokens, is_scored)
