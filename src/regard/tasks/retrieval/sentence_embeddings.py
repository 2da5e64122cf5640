"""Sentence embeddings: each text is one input sequence and gets one vector.

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
from regard.core.progress import OnProgress, no_progress
from regard.data.special_tokens import InputSequence, delimited_sequence, single_sequence
from regard.models.model import Model
from regard.models.task_models.sentence_model import gives_sentence_embeddings
from regard.tasks import Tools, example_batches

MAX_TEXTS_IN_MEMORY = 4096
"Texts encoded as examples at a time: examples take far more memory than embeddings."


def encode_text(text: str, tools: Tools) -> InputSequence:
    """The input sequence of one text."""
    build = delimited_sequence if tools.family == "decoder" else single_sequence
    return build(tools.tokenizer.encode(text), tools.tokenizer, limit=tools.context)


def pair_example(
    first: InputSequence, second: InputSequence | None = None, *, labels: NDArray[Any] | None = None
) -> Example:
    """An example of weight 1, whatever its length; the second text is its `source`."""
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
    on_progress: OnProgress = no_progress,
) -> NDArray[np.float32]:
    """(n,w): one embedding a text, in order; normalised if the model's head normalises."""
    if not gives_sentence_embeddings(model):
        raise UserError(
            "this model gives no sentence embeddings",
            topic="model",
            hint='Train one with task.kind = "retrieval" or "similarity".',
        )
    width = model.body.head.width
    embeddings = np.empty((len(texts), width), dtype=np.float32)
    pad = tools.tokenizer.padding_id
    done = 0
    for start in range(0, len(texts), MAX_TEXTS_IN_MEMORY):
        examples = [
            pair_example(encode_text(text, tools))
            for text in texts[start : start + MAX_TEXTS_IN_MEMORY]
        ]
        for indices, batch in example_batches(examples, pad=pad, device=device):
            embeddings[start + np.asarray(indices)] = model.encode(batch).cpu().numpy()
            done += len(indices)
            on_progress(done, len(texts))
    return embeddings
