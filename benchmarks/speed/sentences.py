"""Training on sentences: length-bucketed batches against the same model with padding to 100."""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from benchmarks.environment import command_environment
from benchmarks.speed.data import data_file
from benchmarks.speed.ours import first_batches, our_run
from benchmarks.speed.peers import MAX_GRAD_NORM, PeerStep, build_plain_gpt, count_parameters
from benchmarks.speed.sizes import NARROW, Size
from benchmarks.speed.timing import OURS, Row, ratio_by_round
from benchmarks.speed.worker_process import WorkerProcess, interleaved_process_times, serve_turns

from regard.runs.experiment import Experiment, build_experiment
from regard.runs.observer import SILENT
from regard.runs.recipe import Recipe

PLAIN = "plain GPT, padded to 100"
NEWS = "one-billion-words-slice/1b_benchmark.dev.tokens.xz"
BATCHES = 6
IGNORE_INDEX = -100


def build_news_experiment() -> Experiment:
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
            "max_grad_norm": MAX_GRAD_NORM,
        },
    }
    return build_experiment(Recipe.from_table(table), initial_model=None, observer=SILENT)


def plain_run(experiment: Experiment) -> tuple[Callable[[], None], int, PeerStep]:
    """The same number of steps on 32 sentences in random order, each padded to 100."""
    size = Size(
        "", NARROW.width, NARROW.layers, NARROW.heads, experiment.vocabulary, 32, NARROW.positions
    )
    generator = np.random.default_rng(0)
    examples = experiment.loader.examples
    order = generator.permutation(len(examples))
    batches, tokens = [], 0
    for begin in range(0, BATCHES * size.rows, size.rows):
        ids = torch.zeros(size.rows, size.positions, dtype=torch.int64)
        targets = torch.full_like(ids, IGNORE_INDEX)
        for row, number in enumerate(order[begin : begin + size.rows]):
            example = examples.example(int(number), generator)
            ids[row, : len(example.inputs)] = torch.from_numpy(example.inputs)
            targets[row, : len(example.targets)] = torch.from_numpy(example.targets)
            tokens += len(example.inputs)
        batches.append((ids, targets))
    step = PeerStep(build_plain_gpt(size, experiment.model, dropout=0.0), size.ids())  # type: ignore[arg-type]

    def run() -> None:
        for step.inputs, step.targets in batches:
            step()

    return run, tokens, step


def serve_worker(name: str) -> None:
    experiment = build_news_experiment()
    parameters = count_parameters(experiment.model.parameters())
    if name == OURS:
        batches = first_batches(experiment, BATCHES)
        run, tokens = our_run(experiment, batches), sum(batch.tokens for batch in batches)
    else:
        run, tokens, peer = plain_run(experiment)
        parameters = count_parameters(peer.model.parameters())
    serve_turns(run, tokens=tokens, parameters=parameters, vocabulary=experiment.vocabulary)


def rows(*, rounds: int = 7) -> list[Row]:
    data_file(NEWS)  # raises here if it is missing
    contestants = {
        name: WorkerProcess("benchmarks.speed.sentences", name, environment=environment)
        for name, environment in ((OURS, command_environment()), (PLAIN, None))
    }
    times = interleaved_process_times(contestants, rounds=rounds)
    tokens = {name: worker.info["tokens"] for name, worker in contestants.items()}
    rates = {name: [tokens[name] / s for s in seconds] for name, seconds in times.items()}
    info = contestants[OURS].info
    if info["parameters"] != contestants[PLAIN].info["parameters"]:
        raise RuntimeError("the two models differ in parameters")
    return [
        Row(
            "training",
            "news sentences, width 48, real tokens per second",
            "tokens/s",
            {name: median(rate) for name, rate in rates.items()},
            ratio_by_round(rates[OURS], rates[PLAIN]),
            f"ours ÷ {PLAIN}",
            6.0,
            same_work=f"{info['parameters']:,} parameters, the same weights, sentences and "
            f"vocabulary ({info['vocabulary']:,}); {tokens[OURS] / BATCHES:,.0f} and "
            f"{tokens[PLAIN] / BATCHES:,.0f} tokens a step",
        )
    ]


if __name__ == "__main__":
    serve_worker(sys.argv[1])
