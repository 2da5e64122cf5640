"""Texts as a sentence encoder reads them, each in a row of its own, and their vectors.

[CLS] text [SEP]  ─►  encoder          <start> text <stop>  ─►  decoder

Shapes: n texts, w model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.batch import Example
from regard.core.errors import UserError
from regard.data.special_tokens import InputSequence, delimited_sequence, single_sequence
from regard.models.model import Model
from regard.models.task_models.sentence_model import SentenceModel
from regard.tasks import OnProgress, Tools, example_batches, ignore_progress

MAX_TEXTS_IN_MEMORY = 4096
"Texts that lie ready as rows while others wait: rows take far more memory than vectors."


def encode_text(text: str, tools: Tools) -> InputSequence:
    """The row of one text."""
    form = delimited_sequence if tools.family == "decoder" else single_sequence
    return form(tools.tokenizer.encode(text), tools.tokenizer, limit=tools.context)


def pair_example(
    first: InputSequence, second: InputSequence | None = None, *, labels: NDArray[Any] | None = None
) -> Example:
    """One row that counts once, however long it is; the second text has places of its own."""
    ids = np.asarray(first.ids, dtype=np.int64)
    weights = np.zeros(len(ids), dtype=np.float32)
    weights[0] = 1.0
    return Example(
        ids,
        ids,
        weights,
        source=None if second is None else np.asarray(second.ids, dtype=np.int64),
        labels=labels,
    )


@torch.inference_mode()
def embed_texts(
    model: Model,
    texts: Sequence[str],
    tools: Tools,
    *,
    device: str = "cpu",
    on_progress: OnProgress = ignore_progress,
) -> NDArray[np.float32]:
    """(n,w): a vector for each text, in their order; as long as the model's head leaves it."""
    if not isinstance(model, SentenceModel):
        raise UserError(
            "this model gives no vectors of texts",
            topic="model",
            hint='Train one with task.kind = "retrieval" or "similarity".',
        )
    width = model.body.head.width
    vectors = np.empty((len(texts), width), dtype=np.float32)
    pad = tools.tokenizer.padding_id
    done = 0
    for start in range(0, len(texts), MAX_TEXTS_IN_MEMORY):
        some = [
            pair_example(encode_text(text, tools))
            for text in texts[start : start + MAX_TEXTS_IN_MEMORY]
        ]
        for numbers, batch in example_batches(some, pad=pad, device=device):
            vectors[start + np.asarray(numbers)] = model.encode(batch).cpu().numpy()
            done += len(numbers)
            on_progress(done, len(texts))
    return vectors
