"""What takes the steps when a model writes: a decoder itself, or a model bound to its sources.

Decoders go on with the rows they are given. Models with a source read those rows as their sources
and begin anew. Shapes: b rows, s source place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from regard.batch import pad
from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.generation.decoding_window import Decodable
from regard.models.architectures.language_model import LanguageModel
from regard.models.architectures.seq2seq_model import Seq2SeqModel
from regard.models.model import Model


def can_write(model: Model) -> bool:
    """An encoder sees both sides of a place and can continue nothing."""
    return isinstance(model, LanguageModel | Seq2SeqModel)


def writer_of(
    model: Model, rows: Sequence[list[int]], tokenizer: Tokenizer
) -> tuple[Decodable[Any], list[list[int]]]:
    """What takes the steps, and the tokens that each row of what is written begins with."""
    if isinstance(model, LanguageModel):
        return model, list(rows)
    if not isinstance(model, Seq2SeqModel):
        raise UserError(
            "this model tells hidden tokens and cannot write on",
            topic="generate",
            hint='Train a family that writes: "decoder", "encoder-decoder" or "recurrent".',
        )
    if not rows:
        return model.given(torch.empty(0, 1), torch.empty(0, 1)), []
    return writer_from(model, rows, tokenizer), [[tokenizer.require("start")] for _ in rows]


def writer_from(
    model: Seq2SeqModel, sources: Sequence[list[int]], tokenizer: Tokenizer
) -> Decodable[Any]:
    """The model bound to these sources; of one that is too long its end counts most."""
    device = next(model.parameters()).device
    kept = [ids[-model.context :] for ids in sources]
    source = torch.from_numpy(pad(kept, tokenizer.padding)).to(device)
    lengths = torch.tensor([len(ids) for ids in kept], device=device)
    return model.given(source, torch.arange(source.shape[1], device=device) < lengths[:, None])


def never_written(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Special tokens that are no text, but for the stop, which ends one."""
    roles = {tokenizer.start, tokenizer.pad, tokenizer.cls, tokenizer.sep, tokenizer.mask}
    return tuple(role for role in roles - {tokenizer.require("stop")} if role is not None)
