"""Texts written by a model, with prompts and seed settled beforehand."""

from __future__ import annotations

from collections.abc import Sequence

from regard.decode.generate import Greedy, Sample, Strategy, generate
from regard.model.language_model import LanguageModel
from regard.recipe import Samples
from regard.text.tokenizer import Tokenizer


def write_texts(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    *,
    strategy: Strategy,
    max_new: int,
    seed: int,
) -> list[str]:
    """What the model writes after each prompt, prompt not included."""
    start, pad = tokenizer.require("start"), tokenizer.require("pad")
    encoded = [[start, *ids] for ids in tokenizer.encode_many(list(prompts))]
    roles = (tokenizer.start, tokenizer.pad, tokenizer.cls, tokenizer.sep, tokenizer.mask)
    stop = tokenizer.require("stop")
    written = generate(
        model,
        encoded,
        strategy=strategy,
        max_new=max_new,
        stop=stop,
        pad=pad,
        seed=seed,
        forbidden=tuple({role for role in roles if role is not None and role != stop}),
    )
    return [
        tokenizer.decode([*ids, *one.ids]).removeprefix(tokenizer.decode(ids))
        for ids, one in zip(encoded, written, strict=True)
    ]


def strategy_of(samples: Samples) -> Strategy:
    if samples.temperature == 0:
        return Greedy()
    return Sample(temperature=samples.temperature, top_p=samples.top_p)
