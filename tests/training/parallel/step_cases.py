"""Trainings of a few steps in float64, as one process and as ranks. Run as a module, it is a rank:

    python -m tests.training.parallel.step_cases FOLDER ddp/decoder fsdp/LoRA …

with the launcher's variables. `nan` is a step in which one rank's loss is not finite.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from tests.training.toy_loader import ToySplit
from torch import nn
from torch.optim import Optimizer

from regard.adapters import ADAPTERS
from regard.batch import Batch, Example
from regard.core.errors import DivergenceError
from regard.core.settings import read_settings
from regard.data.chunks import DocumentChunks, PackedBlocks
from regard.models.families import FAMILIES
from regard.models.heads.task_heads import SentenceHead
from regard.models.model import Model
from regard.models.task_models.sentence_model import ContrastiveModel
from regard.objectives import OBJECTIVES, Vocabulary
from regard.training.batch_loader import BatchLoader, Cursor, Examples, ObjectiveExamples
from regard.training.checkpoint import model_tensors
from regard.training.compiled import compile_blocks
from regard.training.device import Machine, choose_machine
from regard.training.loop import Batches, update
from regard.training.optimizer import build_optimizer
from regard.training.parallel.gradient_sync import (
    ONE_PROCESS,
    DataParallelSync,
    GradientSync,
    RankSync,
    StepBatch,
    same_bits,
)
from regard.training.parallel.rank_batches import RankLoader
from regard.training.parallel.sharded import ShardedSync, shard
from regard.training.settings import Train

VOCABULARY, CONTEXT = 90, 8


class StepCase(NamedTuple):
    family: str = "decoder"
    adapter: str = "full"
    accumulate: int = 1
    batches: str = "bucketed"
    negatives: bool = False
    batch_tokens: int = 40
    steps: int = 20
    dtype: torch.dtype = torch.float64
    precision: str = "fp32"
    compiled: str = ""
    "The backend that compiles the blocks of ranks; those of one process stay eager."


CASES = {
    "decoder": StepCase(),
    "decoder, packed": StepCase(batches="packed"),
    "decoder, accumulated": StepCase(accumulate=3),
    "decoder, fewer rows than ranks": StepCase(batch_tokens=8, accumulate=2),
    "encoder": StepCase("encoder"),
    "encoder, accumulated": StepCase("encoder", accumulate=3),
    "encoder-decoder": StepCase("encoder-decoder"),
    "encoder-decoder, accumulated": StepCase("encoder-decoder", accumulate=3),
    "recurrent": StepCase("recurrent"),
    "LoRA": StepCase(adapter="lora"),
    "LoRA, accumulated": StepCase(adapter="lora", accumulate=3),
    "prompt": StepCase(adapter="prompt"),
    "prefix": StepCase(adapter="prefix"),
    "negatives": StepCase("encoder", negatives=True),
    "decoder in fp32": StepCase(dtype=torch.float32),
    "encoder in fp32": StepCase("encoder", dtype=torch.float32),
    "encoder-decoder in fp32": StepCase("encoder-decoder", dtype=torch.float32),
    "decoder in bf16": StepCase(dtype=torch.float32, precision="bf16"),
    "decoder, traced blocks": StepCase(batches="packed", compiled="aot_eager"),
    "decoder, compiled blocks": StepCase(batches="packed", compiled="inductor"),
}


class Pairs:
    """Two texts a row, of different length, some of them twice."""

    lengths = np.full(40, CONTEXT)

    def __len__(self) -> int:
        return len(self.lengths)

    def example(self, row: int, generator: np.random.Generator) -> Example:
        draws = np.random.default_rng(row)
        ids = draws.integers(7, VOCABULARY, size=2 + row % 6)
        other = draws.integers(7, VOCABULARY, size=8 - row % 5)
        weights = np.zeros(len(ids), dtype=np.float32)
        weights[0] = 1.0
        return Example(ids, ids, weights, source=other, labels=np.array([row % 17, row % 13]))


class InFloat64(ContrastiveModel):
    """Embeddings keep the dtype of the weights."""

    def encode(self, batch: Batch) -> torch.Tensor:
        y: torch.Tensor = self.head(self.hidden_states(batch), batch.valid)
        return y


def loader_of(case: StepCase) -> BatchLoader:
    settings = Train(
        batch_tokens=case.batch_tokens, batches=case.batches, accumulate=case.accumulate, lr=0.01
    )
    examples: Examples = Pairs()
    if not case.negatives:
        name = "prefix" if case.family == "encoder-decoder" else None
        part = FAMILIES.get(case.family)
        objective = OBJECTIVES.get(name or part.properties["objectives"][0]).part()
        chunking = PackedBlocks if case.batches == "packed" else DocumentChunks
        rows = chunking(ToySplit(), context=CONTEXT, start=2, stop=3)
        specials = frozenset(range(7)) - {1}
        ids = Vocabulary(size=VOCABULARY, start=2, stop=3, mask=6, specials=specials)
        examples = ObjectiveExamples(rows, objective, ids)
    return BatchLoader(examples, settings, pad=0)


def model_of(case: StepCase) -> Model:
    table: dict[str, object] = {"width": 12, "context": 2 * CONTEXT, "layers": 2}
    if case.family != "recurrent":
        table["heads"] = 2
    family = read_settings(FAMILIES.get(case.family).part, table)
    model: Model = family.build(vocabulary=VOCABULARY, seed=0)
    if case.negatives:
        model = InFloat64(model, SentenceHead(pooling="mean"), temperature=0.1, seed=0)
    part = ADAPTERS.get(case.adapter).part
    read_settings(part, {"length": 3} if "length" in part.model_fields else {}).apply(model, seed=0)
    return model.to(case.dtype).train()


def divide(
    model: Model, parallel: str, machine: Machine
) -> tuple[nn.Module, RankSync, Mapping[str, nn.Parameter] | None]:
    """What is trained, how its ranks agree, and what the optimizer updates."""
    if parallel == "ddp":
        return model, DataParallelSync(), None
    sharded = shard(model, machine, keep_whole=True)
    parts = {name: part.tensor for name, part in sharded.parts.items()}
    return sharded.module, ShardedSync(sharded), parts


def one_update(
    model: nn.Module,
    optimizer: Optimizer,
    batch: StepBatch,
    settings: Train,
    *,
    step: int,
    sync: GradientSync,
    machine: Machine,
) -> tuple[float, float]:
    return update(
        model,
        optimizer,
        batch,
        step=step,
        lr=0.01,
        settings=settings,
        machine=machine,
        sync=sync,
    )


def losses_of(case: StepCase, parallel: str | None) -> tuple[list[float], Model]:
    """The losses of its steps, and the model after them."""
    model, loader = model_of(case), loader_of(case)
    machine = choose_machine("cpu", threads=1, precision=case.precision)
    trained: nn.Module = model
    sync: GradientSync = ONE_PROCESS
    batches: Batches = loader
    parts = None
    if parallel is not None:
        batches = RankLoader(loader, rank=dist.get_rank(), size=dist.get_world_size())
        trained, sync, parts = divide(model, parallel, machine)
        if case.compiled:
            compile_blocks(model, backend=case.compiled)
    optimizer = build_optimizer(trained, loader.settings, parts=parts)
    losses = []
    for step, (batch, _) in enumerate(islice(batches.batches_after(Cursor()), case.steps), start=1):
        loss, _ = one_update(
            trained,
            optimizer,
            batch,
            loader.settings,
            step=step,
            sync=sync,
            machine=machine,
        )
        losses.append(loss)
    if isinstance(sync, ShardedSync):
        sync.model.gather_into(model)
    elif parallel is not None:
        assert same_bits(model)
    return losses, model


def save(file: Path, losses: list[float], model: Model) -> None:
    tensors = {key: tensor.contiguous() for key, tensor in model_tensors(model).items()}
    save_file(tensors, file.with_suffix(".safetensors"))
    file.with_suffix(".json").write_text(json.dumps(losses), encoding="utf-8")


def nan_on_the_last_rank(parallel: str) -> str:
    """What each rank says; its weights have to be as they were."""
    case, machine = CASES["decoder"], choose_machine("cpu", threads=1)
    model, loader = model_of(case), loader_of(case)
    batches = RankLoader(loader, rank=dist.get_rank(), size=dist.get_world_size())
    batch = batches.build_batch(loader.plan(0)[0], epoch=0)
    if dist.get_rank() == dist.get_world_size() - 1:
        batch.parts[0].weights[0, 0] = torch.inf  # 0 · ∞ somewhere below
    trained, sync, parts = divide(model, parallel, machine)
    optimizer = build_optimizer(trained, loader.settings, parts=parts)
    before = [p.detach().clone() for p in trained.parameters()]
    try:
        one_update(trained, optimizer, batch, loader.settings, step=1, sync=sync, machine=machine)
    except DivergenceError as problem:
        kept = all(torch.equal(p, old) for p, old in zip(trained.parameters(), before, strict=True))
        return f"{problem.what}; {'kept' if kept else 'changed'}"
    return "no error"


@contextmanager
def joined() -> Iterator[None]:
    dist.init_process_group("gloo", init_method="env://", timeout=timedelta(seconds=60))
    yield
    dist.destroy_process_group()


def main(folder: Path, names: list[str]) -> None:
    with joined():
        for name in names:
            parallel, _, case = name.partition("/")
            file = folder / name.replace("/", "-")
            if case == "nan":
                text = nan_on_the_last_rank(parallel)
                file.with_suffix(f".{dist.get_rank()}").write_text(text, encoding="utf-8")
                continue
            losses, model = losses_of(CASES[case], parallel)
            if dist.get_rank() == 0:
                save(file, losses, model)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
