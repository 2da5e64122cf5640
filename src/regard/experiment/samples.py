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
    roles = (tokenizer.start, tokenizer.pad, tokenizer.cls, tokenizer.sep, tokenizer.mask)
    stop = tokenizer.require("stop")
    writer, begun = _writer(model, encoded, tokenizer)
    written = generate(
        writer,
        begun,
        strategy=strategy,
        max_new=max_new,
        stop=stop,
        pad=tokenizer.require("pad"),
        seed=seed,
        forbidden=tuple({role for role in roles if role is not None and role != stop}),
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
    device = next(model.parameters()).device
    sources = [ids[-model.context :] for ids in encoded]  # what stands nearest counts most
    if not sources:
        return model.given(torch.empty(0, 1), torch.empty(0, 1)), []
    source = torch.from_numpy(pad(sources, tokenizer.require("pad"))).to(device)
    lengths = torch.tensor([len(ids) for ids in sources], device=device)
    valid = torch.arange(source.shape[1], device=device) < lengths[:, None]
    return model.given(source, valid), [[tokenizer.require("start")] for _ in sources]


def strategy_of(samples: Samples) -> Strategy:
    if samples.temperature == 0:
        return Greedy()
    return Sample(temperature=samples.temperature, top_p=samples.top_p)
