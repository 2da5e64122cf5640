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
from regard.data.packing import Packed, bounded, one
from regard.models.model import Model
from regard.models.task_models.sentence_model import SentenceModel
from regard.tasks import OnProgress, Tools, batches_of, untold

TEXTS_AT_ONCE = 4096
"Texts that lie ready as rows while others wait: rows take far more memory than vectors."


def packed_text(text: str, tools: Tools) -> Packed:
    """The row of one text."""
    form = bounded if tools.family == "decoder" else one
    return form(tools.tokenizer.encode(text), tools.tokenizer, limit=tools.context)


def row_of(
    first: Packed, second: Packed | None = None, *, labels: NDArray[Any] | None = None
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
def vectors_of(
    model: Model,
    texts: Sequence[str],
    tools: Tools,
    *,
    device: str = "cpu",
    on_progress: OnProgress = untold,
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
    pad = tools.tokenizer.padding
    done = 0
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        some = [row_of(packed_text(text, tools)) for text in texts[start : start + TEXTS_AT_ONCE]]
        for numbers, batch in batches_of(some, pad=pad, device=device):
            vectors[start + np.asarray(numbers)] = model.encode(batch).cpu().numpy()
            done += len(numbers)
            on_progress(done, len(texts))
    return vectors
