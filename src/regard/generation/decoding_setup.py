"""Decoding setup: what to decode with, which tokens rows start from, which are suppressed.

Decoders continue the rows they are given. Seq2seq models take those rows as source sequences and
start from the start token. Shapes: b rows, s source position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch

from regard.attention.cache import ModelCache
from regard.batch import RowLayout, pad
from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.generation.decoding_window import Decodable, model_device
from regard.models.architectures.source_bound_decoder import (
    SourceBoundDecoder,
    SourceDecoder,
    decodes_source,
)
from regard.models.model import Model


def decodes_rows(model: Model) -> TypeGuard[Decodable[ModelCache]]:
    return model.generates and model.body.reads == "row"


def prepare_decoding(
    model: Model, rows: Sequence[list[int]], tokenizer: Tokenizer
) -> tuple[Decodable[Any], list[list[int]]]:
    """The model to decode with, and the tokens that each generated row starts from."""
    if decodes_rows(model):
        return model, list(rows)
    if not decodes_source(model):
        raise UserError(
            "this model cannot generate text: it predicts masked tokens, or its class does not "
            "declare `generates`",
            topic="generate",
            hint='Train a family that generates: "decoder", "encoder-decoder" or "recurrent".',
        )
    if not rows:
        return SourceBoundDecoder(model, torch.empty(0, 1), torch.empty(0, 1)), []
    return bind_sources(model, rows, tokenizer), [[tokenizer.require("start")] for _ in rows]


def bind_sources(
    model: SourceDecoder, sources: Sequence[list[int]], tokenizer: Tokenizer
) -> Decodable[Any]:
    """The model bound to these source sequences; one that is too long keeps its end."""
    device = model_device(model)
    kept = [ids[-model.context :] for ids in sources]
    source = torch.from_numpy(pad(kept, tokenizer.padding_id)).to(device)
    lengths = torch.tensor([len(ids) for ids in kept])
    valid = torch.arange(source.shape[1]) < lengths[:, None]
    return SourceBoundDecoder(model, source, valid.to(device), RowLayout.of(valid))


def suppressed_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Special tokens that are never generated: all but the stop token."""
    roles = {tokenizer.start, tokenizer.pad, tokenizer.cls, tokenizer.sep, tokenizer.mask}
    return tuple(role for role in roles - {tokenizer.require("stop")} if role is not None)
