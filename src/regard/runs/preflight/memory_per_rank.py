"""Memory of each rank of a training on many devices, which need not be here.

Every rank holds the activations of its part of the batch. Of P values, T of them trained, it holds
in bytes, with c = 4, or 2 where blocks are gathered in bfloat16:

    one device   4·P + 12·T + activations
    ddp          that, or with 4·T of flat gradients instead of the activations, if these are less
    fsdp         (4·P + 12·T) / N + activations + gathered, and on rank 0 the whole model: 4·P
                 gathered = c·(P outside of blocks + 2·P of a block) + (c + 4)·P of a block

A rank sends per step, by ring algorithms: ddp 2·(N−1)/N · 4·T; fsdp for each micro-batch
(N−1)/N · (c·P + c·P of all blocks + 4·T), since blocks are gathered again for the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from regard.batch import Batch
from regard.core.errors import UserError
from regard.core.settings import catalog_name
from regard.models.model import Model
from regard.ops.cpu.library import without_kernels
from regard.runs.models.init_from import inherit_settings, preview_initial_model
from regard.runs.observer import Observer
from regard.runs.preflight.memory import memory_limits_of, trains
from regard.runs.preparation.prepare import prepare
from regard.runs.preparation.prepared import PreparedData
from regard.runs.recipe import Recipe
from regard.tasks import TASKS
from regard.training.batch_loader import BatchLoader
from regard.training.planning.accelerators import RESERVED_BYTES, Accelerator, find_accelerator
from regard.training.planning.step_memory import StepMemory, step_memory

Parallel = Literal["one device", "ddp", "fsdp"]
MAX_WORLD_SIZE = 2**20
FLOAT_BYTES, BF16_BYTES = 4, 2
KEPT_FREE = 6
"""On this machine malloc keeps what was freed, and tensors of other sizes fill not all of it: a
sixth of the activations, as measured."""
KEPT_BETWEEN_GRADIENTS = 2
"""With several micro-batches half of the activations more: the gradients of the first lie between
its freed activations, where those of the next do not all find a place."""
MAX_GRADIENTS_BETWEEN = 4
"But no more than so many times the gradients: the few of an adapter leave large gaps."
GATHERED_BLOCKS = 2
"The one that computes and the next, which is gathered meanwhile."


@dataclass(frozen=True)
class RankMemory:
    """Bytes of one rank."""

    parallel: Parallel
    parameters: int
    gradients: int
    moments: int
    activations: int
    buffers: int
    """Of ddp: gradients on their way, where activations took less before them. Of fsdp: blocks
    gathered from all ranks, their gradients before these are scattered, and the whole model, which
    rank 0 evaluates and saves."""
    reserved: int
    "For the driver and libraries; on this machine what malloc keeps free."
    sent: int
    "Bytes that a rank sends in a step."

    @property
    def total(self) -> int:
        held = self.parameters + self.gradients + self.moments + self.activations
        return held + self.buffers + self.reserved


@dataclass(frozen=True)
class MemoryPerRank:
    """What a training takes of each device, and whether it fits."""

    name: str
    world_size: int
    device: str
    device_bytes: int | None
    "None where this machine does not report its memory."
    precision: str
    rows: int
    "Of a batch."
    rank_rows: int
    "Of them on one rank; the last ranks may have fewer."
    micro_rows: int
    "Of these at once."
    positions: int
    "Of a micro-batch, padding included."
    options: tuple[RankMemory, ...]
    changes: tuple[str, ...]
    "What makes it fit, or fit better; empty where everything does."

    def fits(self, option: RankMemory) -> bool:
        return self.device_bytes is None or option.total <= self.device_bytes

    def __repr__(self) -> str:
        shown = ", ".join(f"{one.parallel} {one.total / 1e9:,.1f} GB" for one in self.options)
        return f"<MemoryPerRank {self.name} on {self.world_size:,} × {self.device}: {shown}>"

    def as_dict(self) -> dict[str, Any]:
        fits = [self.fits(option) for option in self.options]
        options = [
            asdict(option) | {"total": option.total, "fits": fit}
            for option, fit in zip(self.options, fits, strict=True)
        ]
        return asdict(self) | {"options": options, "changes": list(self.changes)}


@dataclass(frozen=True)
class _Target:
    """The devices that are planned for."""

    world_size: int
    accelerator: Accelerator | None
    "None: this machine, whose memory the ranks share."
    precision: str

    def reserved(self, step: StepMemory, *, accumulates: bool) -> int:
        return RESERVED_BYTES if self.accelerator else kept_free(step, accumulates=accumulates)

    def autocast(self) -> AbstractContextManager[object]:
        if self.precision == "bf16":
            return torch.autocast("cpu", dtype=torch.bfloat16)  # the device of fake tensors
        return nullcontext()

    def operations(self) -> AbstractContextManager[object]:
        """An accelerator has torch's operations, whatever this CPU has."""
        return without_kernels() if self.accelerator else nullcontext()


def memory_per_rank(
    recipe: Recipe, *, world_size: int, device: str | None, runs: Path, observer: Observer
) -> MemoryPerRank:
    """Tokenizes the text (cached for training); builds no model and trains nothing."""
    target = _target(recipe, world_size=world_size, device=device)
    if not trains(recipe):
        raise UserError("nothing is trained: there is no step to plan", topic="recipe")
    previewed, initial_model = preview_initial_model(recipe, runs=runs)
    resolved = inherit_settings(previewed, initial_model)
    tokenizer = initial_model.tokenizer if initial_model else None
    prepared = prepare(resolved, tokenizer=tokenizer, observer=observer)
    vocabulary = initial_model.vocabulary if initial_model else prepared.tokenizer.size
    loader = BatchLoader(prepared.examples(), resolved.train, pad=prepared.tokenizer.padding_id)
    rows = rows_of_largest_batch(loader)
    rank_rows = -(-len(rows) // world_size)
    micro_rows = -(-rank_rows // min(resolved.train.accumulate, rank_rows))
    build = partial(_build_model, resolved, prepared, vocabulary=vocabulary)

    def account(count: int) -> tuple[StepMemory, Batch]:
        batch = loader.build_batch(rows[:count], epoch=0)
        with target.operations():
            accumulates = micro_rows < rank_rows
            step = step_memory(build, batch, accumulates=accumulates, autocast=target.autocast)
        return step, batch

    step, batch = account(micro_rows)
    micro_batches = -(-rank_rows // micro_rows)
    total, available = memory_limits_of("cpu").total, target.accelerator
    device_bytes = available.bytes if available else total and total // world_size
    plan = MemoryPerRank(
        name=resolved.name,
        world_size=world_size,
        device=available.name if available else "this machine",
        device_bytes=device_bytes,
        precision=target.precision,
        rows=len(rows),
        rank_rows=rank_rows,
        micro_rows=micro_rows,
        positions=batch.ids.numel() + (0 if batch.source is None else batch.source.numel()),
        options=tuple(_options(step, target, micro_batches=micro_batches)),
        changes=(),
    )
    if all(map(plan.fits, plan.options)):
        return plan
    one_row = account(1)[0] if micro_rows > 1 else step
    *_, least = _options(one_row, target, micro_batches=rank_rows)
    changes = tuple(_changes(plan, resolved, least))
    return MemoryPerRank(**{**vars(plan), "changes": changes})


def _target(recipe: Recipe, *, world_size: int, device: str | None) -> _Target:
    if not 1 <= world_size <= MAX_WORLD_SIZE:
        raise UserError(
            f"a world size of {world_size:,} is not possible",
            topic="--world-size",
            hint="Give the number of processes in all, one for each device: 1 or more.",
        )
    precision = recipe.train.precision
    if device is None:
        return _Target(world_size, None, "bf16" if precision == "bf16" else "fp32")
    accelerator = find_accelerator(device)
    if precision == "bf16" and not accelerator.has_bf16:
        raise UserError(
            f'train.precision = "bf16", which {accelerator.name} does not compute',
            topic="recipe",
            hint='Set train.precision = "auto".',
        )
    is_bf16 = precision != "fp32" and accelerator.has_bf16
    return _Target(world_size, accelerator, "bf16" if is_bf16 else "fp32")


def rows_of_largest_batch(loader: BatchLoader) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The longest row, as often as a batch holds it: no batch takes more, and none is padded."""
    lengths = np.asarray(loader.examples.lengths)
    count = max(1, loader.settings.batch_tokens // int(lengths.max()))
    return np.full(count, lengths.argmax())


def kept_free(step: StepMemory, *, accumulates: bool) -> int:
    """Bytes that a process on this machine keeps beside its tensors."""
    kept = step.activations // KEPT_FREE
    if not accumulates:
        return kept
    between = step.activations // KEPT_BETWEEN_GRADIENTS
    return kept + min(between, MAX_GRADIENTS_BETWEEN * step.gradients)


def _build_model(recipe: Recipe, prepared: PreparedData, *, vocabulary: int) -> Model:
    body = recipe.model.build(vocabulary=vocabulary, seed=0)
    model = prepared.attach_head(body, seed=0)
    recipe.adapt.apply(model, seed=0)
    return model


def _options(step: StepMemory, target: _Target, *, micro_batches: int) -> Iterator[RankMemory]:
    n = target.world_size
    reserved = target.reserved(step, accumulates=micro_batches > 1)
    yield RankMemory(
        parallel="one device" if n == 1 else "ddp",
        parameters=step.parameters,
        gradients=step.gradients,
        moments=step.moments,
        activations=step.activations,
        buffers=0 if n == 1 else max(0, step.gradients - step.activations),
        reserved=reserved,
        sent=2 * (n - 1) * step.gradients // n,
    )
    if n == 1:
        return
    wide = BF16_BYTES if target.precision == "bf16" else FLOAT_BYTES
    values = step.parameters // FLOAT_BYTES
    shard = [-(-size // n) for size in (step.parameters, step.gradients, step.moments)]
    gathered = wide * (values - step.blocks + GATHERED_BLOCKS * step.largest_block)
    gathered += (wide + FLOAT_BYTES) * step.largest_block
    per_micro_batch = wide * (values + step.blocks) + step.gradients
    yield RankMemory(
        parallel="fsdp",
        parameters=shard[0],
        gradients=shard[1],
        moments=shard[2],
        activations=step.activations,
        buffers=gathered + step.parameters,
        reserved=reserved,
        sent=micro_batches * (n - 1) * per_micro_batch // n,
    )


def _changes(plan: MemoryPerRank, recipe: Recipe, least: RankMemory) -> Iterator[str]:
    """What to change; `least` is taken with one row at a time. Each row takes as much again."""
    assert plan.device_bytes is not None
    fitting = [option.parallel for option in plan.options if plan.fits(option)]
    if "fsdp" in fitting:
        yield 'ddp does not fit: set train.parallel = "fsdp"'
        return
    if plan.world_size > 1 and fitting:
        yield 'fsdp does not fit: set train.parallel = "ddp"'
        return
    each = max(1, (plan.options[-1].total - least.total) // max(1, plan.micro_rows - 1))
    rows = 1 + (plan.device_bytes - least.total) // each
    with_fsdp = "" if plan.world_size == 1 else ' with train.parallel = "fsdp"'
    if plan.device_bytes >= least.total:
        if not _compares_rows(recipe):
            accumulate = -(-plan.rank_rows // rows)
            yield f"train.accumulate = {accumulate:,} fits{with_fsdp}: the update is the same"
        tokens = max(1, rows * plan.world_size * recipe.train.batch_tokens // plan.rows)
        yield f"train.batch_tokens = {tokens:,} fits{with_fsdp}: a smaller batch"
        return
    sharded = least.parameters + least.gradients + least.moments
    free = plan.device_bytes - (least.total - sharded)
    if plan.world_size > 1 and free > 0:
        devices = -(-sharded * plan.world_size // free)
        yield f"--world-size {devices:,} fits{with_fsdp}, one row at a time"
        return
    if plan.world_size == 1:
        yield 'one row does not fit: take several devices (--world-size) and "fsdp"'
    yield "one row does not fit: lower model.context, or model.width and model.layers"


def _compares_rows(recipe: Recipe) -> bool:
    if recipe.task is None:
        return False
    kind = catalog_name(recipe.task, TASKS)
    return bool(TASKS.get(kind).properties.get("compares_rows"))
