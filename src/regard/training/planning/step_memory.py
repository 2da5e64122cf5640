"""Memory of a training step, tensor by tensor, without computing or allocating it.

Forward and backward pass run on torch's fake tensors: these have shapes, no values and no memory,
and take the paths of real ones. Whatever a kind of attention, a head or an adapter keeps for the
backward pass is therefore counted, and nothing has to be declared. Bytes are those of storages
while something holds them. Gradients come while activations go, but in an allocator that keeps what
was freed they hardly take their place: the sum of all is what a process was measured to take.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.batch import Batch
from regard.core.errors import UserError
from regard.models.model import Model

MOMENT_BYTES = 8
"AdamW's two moments of a trained value, in float32."


@dataclass(frozen=True)
class StepMemory:
    """Bytes of one process."""

    parameters: int
    "Weights and buffers."
    gradients: int
    moments: int
    activations: int
    "The most that forward and backward pass hold at once beside these; kernels' workspaces not."
    largest_block: int
    "Values of the largest block, frozen ones included."
    blocks: int
    "Values of all blocks."

    @property
    def total(self) -> int:
        return self.parameters + self.gradients + self.moments + self.activations


def step_memory(
    build: Callable[[], Model],
    batch: Batch,
    *,
    accumulates: bool,
    autocast: Callable[[], AbstractContextManager[object]],
) -> StepMemory:
    """Of a step over micro-batches like `batch`; `build` gives the model, with fake weights."""
    layout = batch.layout  # read here: fake tensors have no values
    # Inputs are real, and become fake where they meet a weight.
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        fake_batch = batch.map_tensors(fake.from_tensor)
        vars(fake_batch)["layout"] = layout
        try:
            return count_step(build(), fake_batch, accumulates=accumulates, autocast=autocast)
        except (DynamicOutputShapeException, DataDependentOutputException) as problem:
            raise UserError(
                f"its memory cannot be predicted: a step depends on values ({problem})",
                topic="model",
                hint="`regard validate` without a world size and a device measures a few steps.",
            ) from None


def count_step(
    model: Model,
    batch: Batch,
    *,
    accumulates: bool,
    autocast: Callable[[], AbstractContextManager[object]],
) -> StepMemory:
    """Count a forward and backward pass, of fake tensors or real ones, without gradients so far."""
    model.train()
    parameters = list(model.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    with LiveBytes(parameters=[*parameters, *model.buffers()], trained=trained) as live:
        for _ in range(1 + accumulates):
            with autocast():
                terms = model(batch)
            loss: Any = sum(term.sum / 2.0 for term in terms.values())
            loss.backward()
    stacks = model.body.stacks.values()
    blocks = [_values(one.parameters()) for stack in stacks for one in stack.blocks]
    return StepMemory(
        parameters=live.parameter_bytes,
        gradients=sum(one.numel() * one.element_size() for one in trained),
        moments=MOMENT_BYTES * _values(trained),
        activations=live.activation_peak,
        largest_block=max(blocks, default=0),
        blocks=sum(blocks),
    )


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of storages from the operation that makes them until they are freed."""

    sees_operators = True
    "Kernels count as operators: it asks for their outputs alone."

    def __init__(self, *, parameters: Iterable[Tensor], trained: Sequence[nn.Parameter]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.activation_peak = 0
        self._total = self._apart = 0
        "Bytes that live now, and those of them that are no activations."
        self._bytes: dict[int, int] = {}
        "By storage."
        self._gradients: set[int] = set()
        for parameter in parameters:
            self._add(parameter)
        self.parameter_bytes = self._apart = self._total
        self.activation_peak = 0
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._count_gradient)  # type: ignore[no-untyped-call]
            for parameter in trained
        ]

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in tree_leaves(made):
            if isinstance(one, Tensor):
                self._add(one)
        return made

    def __exit__(self, *error: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def _add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._bytes:
            return
        self._bytes[key] = size
        self._total += size
        self.activation_peak = max(self.activation_peak, self._total - self._apart)
        weakref.finalize(storage, partial(self._free, key, size))

    def _free(self, key: int, size: int) -> None:
        if self._bytes.pop(key, None) is not None:
            self._total -= size

    def _count_gradient(self, parameter: Tensor) -> None:
        """A gradient that has just been accumulated is no activation any more."""
        assert parameter.grad is not None
        storage = parameter.grad.untyped_storage()
        if storage._cdata in self._bytes and storage._cdata not in self._gradients:
            self._gradients.add(storage._cdata)
            self._apart += storage.nbytes()


def _values(tensors: Iterable[Tensor]) -> int:
    return sum(one.numel() for one in tensors)
