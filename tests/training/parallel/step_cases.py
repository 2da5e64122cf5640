"""Trainings of a few steps in float64, as one process and as ranks: run as a module, it is a rank.

python -m tests.training.parallel.step_cases FOLDER CASE…      with the launcher's variables
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from tests.training.toy_loader import ToySplit

from regard.adapters import ADAPTERS
from regard.batch import Batch, Example
from regard.core.settings import read_settings
from regard.data.chunks import DocumentChunks, PackedBlocks
from regard.models.families import FAMILIES
from regard.models.heads.task_heads import SentenceHead
from regard.models.model import Model
from regard.models.task_models.sentence_model import ContrastiveModel
from regard.objectives import OBJECTIVES, Vocabulary
from regard.training.batch_loader import BatchLoader, Cursor, Examples, ObjectiveExamples
from regard.training.checkpoint import model_tensors
from regard.training.device import choose_machine
from regard.training.loop import update
from regard.training.optimizer import build_optimizer
from regard.training.parallel.gradient_sync import ONE_PROCESS, DataParallel, same_bits
from regard.training.parallel.rank_batches import RankLoader
from regard.training.parallel.sharded import Sharded, shard
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


def losses_of(case: StepCase, parallel: str | None) -> tuple[list[float], Model]:
    """The losses of its steps, and the model after them."""
    model, loader = model_of(case), loader_of(case)
    machine = choose_machine("cpu", threads=1)
    trained, whole = model, model
    sync, batches = ONE_PROCESS, loader
    if parallel is not None:
        batches = RankLoader(loader, rank=dist.get_rank(), size=dist.get_world_size())
        sync = DataParallel()
    parts = None
    if parallel == "fsdp":
        sharded = shard(model, machine, keep_whole=True)
        trained, sync = sharded.module, Sharded(sharded)
        parts = {name: part.tensor for name, part in sharded.parts.items()}
    optimizer = build_optimizer(trained, loader.settings, parts=parts)
    losses = []
    cursors = batches.batches_after(Cursor())
    for step in range(1, case.steps + 1):
        batch, _ = next(cursors)
        loss, norm = update(
            trained,
            optimizer,
            batch,
            step=step,
            lr=0.01,
            settings=loader.settings,
            machine=machine,
            sync=sync,
        )
        losses += [loss, norm]
    if parallel == "fsdp":
        sharded.gather_into(whole)
    elif parallel is not None:
        assert same_bits(model)
    return losses, whole


def save(folder: Path, name: str, losses: list[float], model: Model) -> None:
    tensors = {key: tensor.contiguous() for key, tensor in model_tensors(model).items()}
    save_file(tensors, folder / f"{name}.safetensors")
    (folder / f"{name}.json").write_text(json.dumps(losses), encoding="utf-8")


@contextmanager
def joined() -> Iterator[None]:
    dist.init_process_group("gloo", init_method="env://", timeout=timedelta(seconds=60))
    yield
    dist.destroy_process_group()


def main(folder: Path, parallel: str, names: list[str]) -> None:
    with joined():
        for name in names:
            losses, model = losses_of(CASES[name], parallel)
            if dist.get_rank() == 0:
                save(folder, name, losses, model)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
