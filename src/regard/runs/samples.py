"""Texts written by a model, with prompts and seed settled beforehand."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.generation.decoding_setup import prepare_decoding, suppressed_ids
from regard.generation.generate import Greedy, Sampling, Strategy, generate
from regard.models.model import Model
from regard.runs.recipe import Samples


def write_texts(
    model: Model,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    *,
    strategy: Strategy,
    max_new_tokens: int,
    seed: int,
) -> list[str]:
    """What the model writes after each prompt, prompt not included.

    A model with a source reads the prompt as its source and writes what follows."""
    encoded = [[tokenizer.require("start"), *ids] for ids in tokenizer.encode_many(list(prompts))]
    writer, begun = prepare_decoding(model, encoded, tokenizer)
    written = generate(
        writer,
        begun,
        strategy=strategy,
        max_new_tokens=max_new_tokens,
        stop=tokenizer.require("stop"),
        pad=tokenizer.padding_id,
        seed=seed,
        suppress_tokens=suppressed_ids(tokenizer),
    )
    return [
        tokenizer.decode([*ids, *one.ids]).removeprefix(tokenizer.decode(ids))
        for ids, one in zip(encoded, written, strict=True)
    ]


def strategy_of(samples: Samples) -> Strategy:
    if samples.temperature == 0:
        return Greedy()
    return Sampling(temperature=samples.temperature, top_p=samples.top_p)
