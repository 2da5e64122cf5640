"""Fully sharded data parallelism: every rank holds a part of each parameter, its gradient and its
moments (FSDP2, torch's `fully_shard`), and the whole of a block only while it is computed.

    memory of a rank  ≈  (parameters + gradients + two moments) / ranks + one block + activations

The optimizer updates this rank's parts as plain tensors, which are views of torch's sharded ones:
AdamW is elementwise, so nothing is lost. Evaluation, samples and saved models need whole weights;
they are gathered into the model that was sharded, which rank 0 keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from regard.models.model import Model
from regard.training.device import Machine
from regard.training.parallel.gradient_sync import RankSync


class Part(NamedTuple):
    """This rank's rows of a parameter."""

    tensor: nn.Parameter
    "A view of the sharded parameter's own memory."
    rows: slice
    "Of the first dimension of the whole."
    shape: torch.Size
    "Of the whole."


class ShardedModel:
    """A model whose parameters are sharded over the ranks."""

    def __init__(self, model: Model, machine: Machine) -> None:
        """Takes over `model`, whose weights are the same on every rank."""
        mesh = init_device_mesh(torch.device(machine.device).type, (dist.get_world_size(),))
        policy = MixedPrecisionPolicy()
        # Elsewhere autocast rounds what was gathered in float32: a CPU has no norm with weights
        # in bfloat16 and inputs in float32.
        if machine.precision == "bf16" and machine.device.startswith("cuda"):
            # Residual stream, embedding and output layer stay in float32, as under autocast.
            policy = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
            )
        for stack in model.body.stacks.values():
            for block in stack.blocks:
                fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)  # gradients are sums here
                module.set_force_sum_reduction_for_comms(True)
        self.module = model
        self.updates = 0
        self.parts = {name: _part(p) for name, p in model.named_parameters()}

    def trained_parts(self) -> dict[str, Part]:
        return {name: part for name, part in self.parts.items() if part.tensor.requires_grad}

    @torch.no_grad()
    def gather_into(self, whole: Model | None) -> None:
        """The weights of all ranks, into the whole model of rank 0; a collective."""
        targets = {} if whole is None else dict(whole.named_parameters())
        for name, p in self.module.named_parameters():
            assert isinstance(p, DTensor)
            gathered = p.full_tensor()
            if whole is not None:
                targets[name].copy_(gathered)
        if whole is not None:
            buffers = dict(self.module.named_buffers())
            for name, buffer in whole.named_buffers():
                buffer.copy_(buffers[name])


def shard(model: Model, machine: Machine, *, keep_whole: bool) -> ShardedModel:
    """`keep_whole`: the model stays as it is, beside its shards."""
    return ShardedModel(deepcopy(model) if keep_whole else model, machine)


class ShardedSync(RankSync):
    """torch has summed the gradients of each block as soon as they were complete."""

    def __init__(self, model: ShardedModel, *, stop_signal: Callable[[], int] = lambda: 0) -> None:
        super().__init__(stop_signal=stop_signal)
        self.model = model
        self.pairs = [
            (p, model.parts[name].tensor)
            for name, p in model.module.named_parameters()
            if p.requires_grad
        ]

    @torch.no_grad()
    def finish(self, parameters: Sequence[Tensor], total: Tensor) -> None:
        self.model.updates += 1
        dist.all_reduce(total)
        for sharded, part in self.pairs:
            gradient, sharded.grad = sharded.grad, None
            part.grad = gradient.to_local() if isinstance(gradient, DTensor) else None

    def norm(self, norm: Tensor) -> Tensor:
        squared = norm.double().square()
        dist.all_reduce(squared)
        return squared.sqrt().to(norm.dtype)


def rows_of(count: int, rank: int, size: int) -> slice:
    """Of a first dimension: which rows are a rank's. torch gives each rank as many but the last."""
    each = -(-count // size)
    return slice(min(rank * each, count), min((rank + 1) * each, count))


def _part(p: nn.Parameter) -> Part:
    assert isinstance(p, DTensor)
    with torch.no_grad():
        local = p.to_local()
    rows = rows_of(p.shape[0], dist.get_rank(), dist.get_world_size())
    assert len(local) == rows.stop - rows.start
    return Part(nn.Parameter(local, requires_grad=p.requires_grad), rows, p.shape)
