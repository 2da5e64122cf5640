"""Generation against `transformers.generate` with the same weights, one prompt and a batch.

A randomly initialised decoder of width 192 with 6 layers, 6 heads, a vocabulary of 8,000 and a
context of 256 is exported to transformers' GPT-2. Greedy decoding has to give the same tokens on
both sides; then both are timed, interleaved, prefill included. Prompts of a batch have different
lengths, so transformers gets them left-padded with their attention mask.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

import torch
from benchmarks.environment import command_environment
from benchmarks.speed.timing import OURS, Row, ratio_by_round
from benchmarks.speed.worker_process import WorkerProcess, interleaved_process_times, serve_turns
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from regard.generation.generate import Greedy, Sampling, Strategy, generate
from regard.interop.huggingface.architectures.gpt2 import Gpt2
from regard.interop.huggingface.tensors import export_tensors
from regard.models.architectures.language_model import LanguageModel
from regard.models.families.decoder import Decoder

VOCABULARY = 8_000
PAD = 0
NEW_TOKENS = 128
REPEATS = 3
"Generations in one turn: a single one takes a sixth of a second."
GOALS = {1: 3.0, 16: 2.0}
PEER = "transformers.generate"
FAMILY = Decoder(layers=6, heads=6, width=192, context=256, activation="gelu-tanh")
STRATEGIES: dict[str, tuple[Strategy, dict[str, Any]]] = {
    "greedy": (Greedy(), {"do_sample": False}),
    "top-k 50": (Sampling(top_k=50), {"do_sample": True, "top_k": 50, "top_p": 1.0}),
}
Generate = Callable[[], list[list[int]]]


def rows(*, rounds: int = 7) -> Iterator[Row]:
    """One row for each number of prompts and each decoding strategy."""
    for count in GOALS:
        for strategy_name in STRATEGIES:
            yield compare(count, strategy_name, rounds=rounds)


def compare(count: int, strategy_name: str, *, rounds: int) -> Row:
    contestants = {name: start_worker(name, count, strategy_name) for name in (OURS, PEER)}
    times = interleaved_process_times(contestants, rounds=rounds)
    if contestants[OURS].info != contestants[PEER].info:
        raise RuntimeError("greedy decoding from the same weights gives different tokens")
    return Row(
        "generation",
        f"{NEW_TOKENS} tokens after {count} prompt{'s'[: count > 1]}, {strategy_name}",
        "tokens/s",
        {name: count * NEW_TOKENS / median(seconds) for name, seconds in times.items()},
        ratio_by_round(times[PEER], times[OURS]),
        f"time of {PEER} ÷ ours",
        GOALS[count],
        same_work="width 192 × 6 layers, the same weights; greedily the same tokens",
    )


def start_worker(
    name: str, count: int, strategy_name: str, *, environment: Mapping[str, str] | None = None
) -> WorkerProcess:
    module = "benchmarks.speed.generation"
    if name == OURS:
        environment = command_environment(environment)
    return WorkerProcess(module, name, count, strategy_name, environment=environment)


def serve_worker(name: str, count: int, strategy_name: str) -> None:
    ours = FAMILY.build(vocabulary=VOCABULARY, seed=0).eval()
    theirs, prompts = export_to_transformers(ours), random_prompts(count)
    side = 0 if name == OURS else 1
    greedy = generate_functions(ours, theirs, prompts, strategy_name="greedy", new=NEW_TOKENS)[side]
    timed = generate_functions(ours, theirs, prompts, strategy_name=strategy_name, new=NEW_TOKENS)[
        side
    ]
    serve_turns(timed, repeats=REPEATS, greedily=greedy())


def export_to_transformers(model: LanguageModel) -> GPT2LMHeadModel:
    """transformers' GPT-2 with our weights."""
    logging.set_verbosity_error()
    architecture = Gpt2()
    config = GPT2Config(**architecture.config(FAMILY, vocabulary=VOCABULARY))
    config.bos_token_id = config.eos_token_id = None
    config.pad_token_id = PAD
    peer = GPT2LMHeadModel(config)
    peer.load_state_dict(export_tensors(model, architecture, family=FAMILY), strict=False)
    peer.tie_weights()
    return peer.eval()


def random_prompts(count: int) -> list[list[int]]:
    """Prompts of 8 to 39 tokens; a single prompt has 24."""
    generator = torch.Generator().manual_seed(count)
    lengths = [24] if count == 1 else torch.randint(8, 40, (count,), generator=generator).tolist()
    return [
        torch.randint(PAD + 1, VOCABULARY, (length,), generator=generator).tolist()
        for length in lengths
    ]


def generate_functions(
    ours: LanguageModel,
    theirs: GPT2LMHeadModel,
    prompts: list[list[int]],
    *,
    strategy_name: str,
    new: int,
) -> tuple[Generate, Generate]:
    """Generation of the same continuations by regard and by transformers."""
    strategy, settings = STRATEGIES[strategy_name]
    ids, valid = pad_left(prompts)

    def generate_ours() -> list[list[int]]:
        outputs = generate(ours, prompts, strategy=strategy, max_new_tokens=new, stop=None, pad=PAD)
        return [list(output.ids) for output in outputs]

    def generate_theirs() -> list[list[int]]:
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

    return generate_ours, generate_theirs


def pad_left(prompts: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Ids and attention mask, both (b, longest)."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (longest - len(row)) + row for row in prompts])
    lengths = torch.tensor([len(row) for row in prompts])
    return ids, (torch.arange(longest) >= longest - lengths[:, None]).long()


if __name__ == "__main__":
    serve_worker(sys.argv[1], int(sys.argv[2]), sys.argv[3])
