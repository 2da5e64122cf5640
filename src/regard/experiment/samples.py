"""Texts written by a model, with prompts and seed settled beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from regard.decode.generate import Decodable, Greedy, Sample, Strategy, generate
from regard.errors import UserError
from regard.model.language_model import LanguageModel
from regard.model.model import Model
from regard.model.source_model import SourceModel
from regard.recipe import Samples
from regard.text.batches import pad
from regard.text.tokenizer import Tokenizer


def can_write(model: Model) -> bool:
    """An encoder sees both sides of a place and can continue nothing."""
    return isinstance(model, LanguageModel | SourceModel)


def write_texts(
    model: Model,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    *,
    strategy: Strategy,
    max_new: int,
    seed: int,
) -> list[str]:
    """What the model writes after each prompt, prompt not included.

    A model with a source reads the prompt as its source and writes what follows."""
    encoded = [[tokenizer.require("start"), *ids] for ids in tokenizer.encode_many(list(prompts))]
    writer, begun = _writer(model, encoded, tokenizer)
    written = generate(
        writer,
        begun,
        strategy=strategy,
        max_new=max_new,
        stop=tokenizer.require("stop"),
        pad=tokenizer.require("pad"),
        seed=seed,
        forbidden=never_written(tokenizer),
    )
    return [
        tokenizer.decode([*ids, *one.ids]).removeprefix(tokenizer.decode(ids))
        for ids, one in zip(encoded, written, strict=True)
    ]


def _writer(
    model: Model, encoded: list[list[int]], tokenizer: Tokenizer
) -> tuple[Decodable[Any], list[list[int]]]:
    """What takes the steps, and the tokens each row begins with."""
    if isinstance(model, LanguageModel):
        return model, encoded
    if not isinstance(model, SourceModel):
        raise UserError(
            "this model tells hidden tokens and cannot write on",
            topic="generate",
            mend='Train a family that writes: "decoder", "encoder-decoder" or "recurrent".',
        )
    if not encoded:
        return model.given(torch.empty(0, 1), torch.empty(0, 1)), []
    return writer_from(model, encoded, tokenizer), [[tokenizer.require("start")] for _ in encoded]


def writer_from(
    model: SourceModel, sources: Sequence[list[int]], tokenizer: Tokenizer
) -> Decodable[Any]:
    """The model bound to these sources; of one that is too long its end counts most."""
    device = next(model.parameters()).device
    kept = [ids[-model.context :] for ids in sources]
    source = torch.from_numpy(pad(kept, tokenizer.require("pad"))).to(device)
    lengths = torch.tensor([len(ids) for ids in kept], device=device)
    return model.given(source, torch.arange(source.shape[1], device=device) < lengths[:, None])


def never_written(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Special tokens that are no text, but for the stop, which ends one."""
    roles = {tokenizer.start, tokenizer.pad, tokenizer.cls, tokenizer.sep, tokenizer.mask}
    return tuple(role for role in roles - {tokenizer.require("stop")} if role is not None)


def strategy_of(samples: Samples) -> Strategy:
    if samples.temperature == 0:
        return Greedy()
    return Sample(temperature=samples.temperature, top_p=samples.top_p)
