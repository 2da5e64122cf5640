"""Training on sentences: batches of like lengths against the same model padding each to 100."""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from benchmarks.speed.contest import OURS, Row, ratio_by_round
from benchmarks.speed.data import data_file
from benchmarks.speed.ours import first_batches, our_run
from benchmarks.speed.own_process import OwnProcess, take_turns, times_by_process
from benchmarks.speed.peers import CLIP, PeerStep, count, plain
from benchmarks.speed.sizes import NARROW, Size

from regard.runs.experiment import Experiment, build_experiment
from regard.runs.observer import SILENT
from regard.runs.recipe import Recipe

PLAIN = "plain GPT, padded to 100"
NEWS = "one-billion-words-slice/1b_benchmark.dev.tokens.xz"
BATCHES = 6
NOT_TOLD = -100


def bench() -> Experiment:
    """News sentences, as `regard train` prepares them."""
    table = {
        "name": "sentences",
        "data": {"corpus": str(data_file(NEWS))},
        "tokenizer": {"kind": "word", "minimum_count": 1, "vocabulary": NARROW.vocabulary},
        "model": {
            "family": "decoder",
            "layers": NARROW.layers,
            "heads": NARROW.heads,
            "width": NARROW.width,
            "context": NARROW.positions,
        },
        "train": {
            "max_steps": 1000,
            "batches": "bucketed",
            "batch_tokens": NARROW.tokens,
            "max_grad_norm": CLIP,
            "threads": torch.get_num_threads(),
        },
    }
    return build_experiment(Recipe.from_table(table), start=None, watch=SILENT)


def plain_run(bench: Experiment) -> tuple[Callable[[], None], int, PeerStep]:
    """As many updates of 32 sentences in a random order, each padded to 100."""
    size = Size(
        "", NARROW.width, NARROW.layers, NARROW.heads, bench.vocabulary, 32, NARROW.positions
    )
    generator = np.random.default_rng(0)
    examples = bench.stream.examples
    order = generator.permutation(len(examples))
    batches, tokens = [], 0
    for begin in range(0, BATCHES * size.rows, size.rows):
        ids = torch.zeros(size.rows, size.positions, dtype=torch.int64)
        targets = torch.full_like(ids, NOT_TOLD)
        for row, number in enumerate(order[begin : begin + size.rows]):
            example = examples.example(int(number), generator)
            ids[row, : len(example.inputs)] = torch.from_numpy(example.inputs)
            targets[row, : len(example.targets)] = torch.from_numpy(example.targets)
            tokens += len(example.inputs)
        batches.append((ids, targets))
    step = PeerStep(plain(size, bench.model, dropout=0.0), size.ids())  # type: ignore[arg-type]

    def run() -> None:
        for step.inputs, step.targets in batches:
            step()

    return run, tokens, step


def turns_of(name: str) -> None:
    prepared = bench()
    parameters = count(prepared.model.parameters())
    if name == OURS:
        batches = first_batches(prepared, BATCHES)
        run, tokens = our_run(prepared, batches), sum(batch.tokens for batch in batches)
    else:
        run, tokens, peer = plain_run(prepared)
        parameters = count(peer.model.parameters())
    take_turns(run, tokens=tokens, parameters=parameters, vocabulary=prepared.vocabulary)


def rows(*, rounds: int = 7) -> list[Row]:
    data_file(NEWS)  # says here what is missing
    contestants = {name: OwnProcess("benchmarks.speed.sentences", name) for name in (OURS, PLAIN)}
    taken = times_by_process(contestants, rounds=rounds)
    tokens = {name: one.said["tokens"] for name, one in contestants.items()}
    rates = {name: [tokens[name] / one for one in seconds] for name, seconds in taken.items()}
    said = contestants[OURS].said
    if said["parameters"] != contestants[PLAIN].said["parameters"]:
        raise RuntimeError("the two models are not alike")
    return [
        Row(
            "training",
            "news sentences, width 48, real tokens per second",
            "tokens/s",
            {name: median(rate) for name, rate in rates.items()},
            ratio_by_round(rates[OURS], rates[PLAIN]),
            f"ours ÷ {PLAIN}",
            6.0,
            same_work=f"{said['parameters']:,} parameters, the same weights, sentences and "
            f"vocabulary ({said['vocabulary']:,}); {tokens[OURS] / BATCHES:,.0f} and "
            f"{tokens[PLAIN] / BATCHES:,.0f} tokens a step",
        )
    ]


if __name__ == "__main__":
    turns_of(sys.argv[1])
