"""Writing against `transformers.generate`, from the same weights, alone and in a batch.

    .venv/bin/python benchmarks/generation.py --rounds 7
    .venv/bin/python benchmarks/generation.py --rounds 2 --new 8      # the smallest form

A decoder of width 192 with 6 layers, 6 heads, a vocabulary of 8,000 and a context of 256 is drawn
by a seed and copied into transformers' GPT-2 by regard's own export. Both continue the same prompts
greedily and have to write the same tokens; then both are timed in turn, prompts read included.
Prompts of a batch have different lengths, so transformers gets them padded on the left with their
attention mask. Prints medians of tokens per second, their ratio and the least and greatest ratio
of a round.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from regard.decode.generate import Greedy, Sample, Strategy, generate
from regard.exchange.filling import gathered
from regard.exchange.maps.gpt2 import Gpt2
from regard.model.families.decoder import Decoder
from regard.model.language_model import LanguageModel

VOCABULARY = 8_000
PAD = 0
FAMILY = Decoder(layers=6, heads=6, width=192, context=256, activation="gelu-tanh")
CHOICES: dict[str, tuple[Strategy, dict[str, Any]]] = {
    "greedy": (Greedy(), {"do_sample": False}),
    "top-k 50": (Sample(top_k=50), {"do_sample": True, "top_k": 50, "top_p": 1.0}),
}
Write = Callable[[], list[list[int]]]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--new", type=int, default=128, help="tokens written behind each prompt")
    given = asked.parse_args()
    for row in rows(rounds=given.rounds, new=given.new):
        low, high = row["spread"]
        print(
            f"{row['work']:32} ours {row['ours']:8,.0f}   transformers {row['peer']:8,.0f} "
            f"{row['unit']}   ratio {row['ratio']:.2f} [{low:.2f}, {high:.2f}]   "
            f"{'same tokens' if row['same_work'] else 'OTHER TOKENS'}",
            flush=True,
        )


def rows(*, rounds: int = 7, new: int = 128) -> list[dict[str, Any]]:
    """One row for each count of prompts and each way to choose a token."""
    torch.set_num_threads(2)
    ours = FAMILY.build(vocabulary=VOCABULARY, seed=0).eval()
    theirs = twin(ours)
    measured = []
    for count in (1, 16):
        prompts = drawn_prompts(count)
        greedy = writers(ours, theirs, prompts, choice="greedy", new=new)
        same = greedy[0]() == greedy[1]()
        for choice in CHOICES:
            pair = writers(ours, theirs, prompts, choice=choice, new=new)
            measured.append(
                {
                    "work": f"generation, {count} prompt{'s'[: count > 1]}, {choice}",
                    **timed(*pair, tokens=count * new, rounds=rounds),
                    "unit": "tokens/s",
                    "same_work": same,
                }
            )
    return measured


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
    draw = lambda length: torch.randint(PAD + 1, VOCABULARY, (length,), generator=generator)  # noqa: E731
    return [draw(length).tolist() for length in lengths]


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
        written = generate(ours, prompts, strategy=strategy, max_new=new, stop=None, pad=PAD)
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


def timed(ours: Write, theirs: Write, *, tokens: int, rounds: int) -> dict[str, Any]:
    """Tokens a second of both, in turn, and every other round the other way about."""
    speeds: dict[Write, list[float]] = {ours: [], theirs: []}
    ours(), theirs()  # warm
    for turn in range(rounds):
        for write in (ours, theirs) if turn % 2 == 0 else (theirs, ours):
            began = time.perf_counter()
            write()
            speeds[write].append(tokens / (time.perf_counter() - began))
    ratios = [own / other for own, other in zip(speeds[ours], speeds[theirs], strict=True)]
    return {
        "ours": median(speeds[ours]),
        "peer": median(speeds[theirs]),
        "ratio": median(ratios),
        "spread": (min(ratios), max(ratios)),
    }


if __name__ == "__main__":
    main()
