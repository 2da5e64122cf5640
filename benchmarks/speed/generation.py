"""Writing against `transformers.generate`, from the same weights, alone and in a batch.

A decoder of width 192 with 6 layers, 6 heads, a vocabulary of 8,000 and a context of 256 is drawn
by a seed and copied into transformers' GPT-2 by regard's own export. Both continue the same prompts
greedily and have to write the same tokens; then both are timed in turn, prompts read included.
Prompts of a batch have different lengths, so transformers gets them padded on the left with their
attention mask.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

import torch
from benchmarks.speed.contest import OURS, Row, ratio_by_round
from benchmarks.speed.own_process import OwnProcess, take_turns, times_by_process
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from regard.generation.generate import Greedy, Sampling, Strategy, generate
from regard.interop.huggingface.architectures.gpt2 import Gpt2
from regard.interop.huggingface.tensors import gathered
from regard.models.architectures.language_model import LanguageModel
from regard.models.families.decoder import Decoder

VOCABULARY = 8_000
PAD = 0
NEW = 128
TEXTS = 3
"Of one turn: one text alone is written in a sixth of a second."
GOALS = {1: 3.0, 16: 2.0}
PEER = "transformers.generate"
FAMILY = Decoder(layers=6, heads=6, width=192, context=256, activation="gelu-tanh")
CHOICES: dict[str, tuple[Strategy, dict[str, Any]]] = {
    "greedy": (Greedy(), {"do_sample": False}),
    "top-k 50": (Sampling(top_k=50), {"do_sample": True, "top_k": 50, "top_p": 1.0}),
}
Write = Callable[[], list[list[int]]]


def rows(*, rounds: int = 7) -> Iterator[Row]:
    """One row for each count of prompts and each way to choose a token."""
    for count in GOALS:
        for choice in CHOICES:
            yield contest(count, choice, rounds=rounds)


def contest(count: int, choice: str, *, rounds: int) -> Row:
    contestants = {name: process_of(name, count, choice) for name in (OURS, PEER)}
    taken = times_by_process(contestants, rounds=rounds)
    if contestants[OURS].said != contestants[PEER].said:
        raise RuntimeError("from the same weights other tokens are written greedily")
    return Row(
        "generation",
        f"{NEW} tokens behind {count} prompt{'s'[: count > 1]}, {choice}",
        "tokens/s",
        {name: count * NEW / median(seconds) for name, seconds in taken.items()},
        ratio_by_round(taken[PEER], taken[OURS]),
        f"time of {PEER} ÷ ours",
        GOALS[count],
        same_work="width 192 × 6 layers, the same weights; greedily the same tokens",
    )


def process_of(
    name: str, count: int, choice: str, *, environment: Mapping[str, str] | None = None
) -> OwnProcess:
    module = "benchmarks.speed.generation"
    return OwnProcess(module, name, count, choice, environment=environment)


def turns_of(name: str, count: int, choice: str) -> None:
    ours = FAMILY.build(vocabulary=VOCABULARY, seed=0).eval()
    theirs, prompts = twin(ours), drawn_prompts(count)
    by = 0 if name == OURS else 1
    greedy = writers(ours, theirs, prompts, choice="greedy", new=NEW)[by]
    asked = writers(ours, theirs, prompts, choice=choice, new=NEW)[by]
    take_turns(asked, often=TEXTS, greedily=greedy())


def twin(model: LanguageModel) -> GPT2LMHeadModel:
    """transformers' GPT-2 with the very weights of ours."""
    logging.set_verbosity_error()
    architecture = Gpt2()
    config = GPT2Config(**architecture.config(FAMILY, vocabulary=VOCABULARY))
    config.bos_token_id = config.eos_token_id = None
    config.pad_token_id = PAD
    peer = GPT2LMHeadModel(config)
    peer.load_state_dict(gathered(model, architecture, family=FAMILY), strict=False)
    peer.tie_weights()
    return peer.eval()


def drawn_prompts(count: int) -> list[list[int]]:
    """Prompts of 8 to 39 tokens; the one that stands alone has 24."""
    generator = torch.Generator().manual_seed(count)
    lengths = [24] if count == 1 else torch.randint(8, 40, (count,), generator=generator).tolist()
    return [
        torch.randint(PAD + 1, VOCABULARY, (length,), generator=generator).tolist()
        for length in lengths
    ]


def writers(
    ours: LanguageModel,
    theirs: GPT2LMHeadModel,
    prompts: list[list[int]],
    *,
    choice: str,
    new: int,
) -> tuple[Write, Write]:
    """Both ways to write the same continuations."""
    strategy, settings = CHOICES[choice]
    ids, valid = padded_left(prompts)

    def write() -> list[list[int]]:
        written = generate(ours, prompts, strategy=strategy, max_new_tokens=new, stop=None, pad=PAD)
        return [list(one.ids) for one in written]

    def write_there() -> list[list[int]]:
        with torch.inference_mode():
            rows: Tensor = theirs.generate(
                ids,
                attention_mask=valid,
                max_new_tokens=new,
                pad_token_id=PAD,
                eos_token_id=None,
                **settings,
            )
        return rows[:, ids.shape[1] :].tolist()

    return write, write_there


def padded_left(prompts: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Ids and which of them are tokens, both (b, longest)."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (longest - len(row)) + row for row in prompts])
    lengths = torch.tensor([len(row) for row in prompts])
    return ids, (torch.arange(longest) >= longest - lengths[:, None]).long()


if __name__ == "__main__":
    turns_of(sys.argv[1], int(sys.argv[2]), sys.argv[3])
