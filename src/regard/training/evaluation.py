"""How well a language model predicts each document of a part.

A document longer than the context is read in windows that overlap by half: each token is scored
once, with at least half a context before it. Nothing is skipped: every token and the <stop> count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.text.batches import Batch, Example, collate, in_order

PLACES_AT_ONCE = 2048
"Places that go through the model together: their scores over the vocabulary stay below 100 MB."

OnProgress = Callable[[int, int | None], None]


class Scorer(Protocol):
    """A model that tells the loss at each place of a batch."""

    context: int

    def losses(self, batch: Batch) -> Tensor: ...


def windows(ids: np.ndarray, *, context: int) -> list[Example]:
    """A wrapped document as rows of at most `context` places; weights mark what is scored."""
    inputs, targets = ids[:-1], ids[1:]
    stride = max(1, context // 2)
    rows, scored = [], 0
    while scored < len(targets):
        end = min(len(targets), context if scored == 0 else scored + stride)
        begin = max(0, end - context)
        weights = np.zeros(end - begin, dtype=np.float32)
        weights[scored - begin :] = 1.0
        rows.append(Example(inputs[begin:end], targets[begin:end], weights, None))
        scored = end
    return rows


def places_in_windows(tokens: np.ndarray, *, context: int) -> int:
    """Places that go through the model for documents of so many tokens, `windows` included."""
    targets = tokens.astype(np.int64) + 1
    stride = max(1, context // 2)
    further = np.maximum(0, -(-(targets - context) // stride))
    return int(np.where(targets <= context, targets, context * (1 + further)).sum())


@torch.inference_mode()
def document_losses(
    model: Scorer,
    documents: Sequence[np.ndarray],
    *,
    start: int,
    stop: int,
    pad: int,
    device: str = "cpu",
    on_progress: OnProgress = lambda done, total: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Summed loss in nats, and tokens scored, of each document (ids without <start>, <stop>)."""
    rows: list[Example] = []
    owner: list[int] = []
    for number, ids in enumerate(documents):
        wrapped = np.concatenate(([start], ids, [stop])).astype(np.int64)
        pieces = windows(wrapped, context=model.context)
        rows.extend(pieces)
        owner.extend([number] * len(pieces))
    losses = np.zeros(len(documents))
    tokens = np.zeros(len(documents), dtype=np.int64)
    done = 0
    lengths = [len(row.inputs) for row in rows]
    for chosen in in_order(lengths, budget=max(PLACES_AT_ONCE, model.context)):
        batch = collate([rows[index] for index in chosen], pad_id=pad, rows=chosen.tolist()).to(
            device
        )
        scored = model.losses(batch).double() * batch.weights
        owners = [owner[index] for index in chosen]
        np.add.at(losses, owners, scored.sum(dim=1).cpu().numpy())
        np.add.at(tokens, owners, batch.weights.sum(dim=1).long().cpu().numpy())
        done += len(chosen)
        on_progress(done, len(rows))
    return losses, tokens
