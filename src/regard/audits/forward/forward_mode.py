"""One way to run a model, the same for the same inputs: the mode, the path, the precision.

A pass is seeded, so dropout drops the same; the module's flags and buffers are put back after it,
so batch statistics of one pass do not reach the next, and the model that was given stays as it was.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.audits.forward.double import WIDE, in_double
from regard.audits.subject import Subject, rows_of
from regard.core.errors import UserError

Call = Callable[[Any, Tensor], Any]
NUMBERS_AT_ONCE = 1 << 21
"Outputs held at a time; more than a processor's cache holds is slower."


class RefusedError(Exception):
    """The model did not run this way; the text is its own first line."""


class AuditedCopy:
    """A copy of the subject's module, and one more in float64 when it is first needed."""

    def __init__(self, subject: Subject, change: Callable[[nn.Module], None] | None = None) -> None:
        self.subject = subject
        self.why_not_copied = ""
        self.module = subject.module
        if self.module is None:
            return
        try:
            self.module = copy.deepcopy(self.module)
        except Exception as problem:  # a module may hold anything; then the original is used
            self.why_not_copied = first_line(problem)
            if change is not None:
                raise RefusedError(self.why_not_copied) from problem
        if change is not None:
            change(self.module)

    @cached_property
    def wide(self) -> nn.Module | None:
        """In float64; where no copy can be made `in_double` widens on the way."""
        if self.module is None or self.why_not_copied:
            return self.module
        return copy.deepcopy(self.module).double()


@dataclass(frozen=True)
class ForwardMode:
    """A subject run in one way; `outputs` depends on nothing but the inputs."""

    name: str
    specimen: AuditedCopy
    call: Call
    training: bool = False
    wide: bool = False
    companion: Tensor | None = None
    "A row (1,t) kept beside each row that is run, where rows of a batch feel each other."
    seed: int = 0

    @property
    def subject(self) -> Subject:
        return self.specimen.subject

    @property
    def precision(self) -> torch.dtype:
        """Of the model's numbers; what torch makes by default where there is no module."""
        parts = () if self.specimen.module is None else self.specimen.module.parameters()
        floats = (part.dtype for part in parts if part.is_floating_point())
        return torch.float64 if self.wide else next(floats, torch.get_default_dtype())

    def doubled(self) -> ForwardMode:
        return replace(self, wide=True)

    def outputs(self, inputs: Tensor) -> Tensor:
        """(b,t) ids or (b,t,w) vectors -> (b,t,f), without a graph, for as many rows as given."""
        if self.companion is None:
            return self._pass(inputs).detach()
        beside = self.companion[:, : inputs.shape[1]]
        rows = [self._pass(torch.cat([row[None], beside]))[:1].detach() for row in inputs]
        return torch.cat(rows)

    def gradients(self, inputs: Tensor, queries: list[int], directions: Tensor) -> Tensor:
        """Size of d(direction · output at i)/d(token vector j), (i,j), for one row (1,t).

        directions (i,f) gives each query its own random projection.
        """
        if self.companion is not None:
            inputs = torch.cat([inputs, self.companion[:, : inputs.shape[1]]])
        leaves: list[Tensor] = []
        with self._state(graph=True) as module, _leaves(self.subject, module, leaves, self.wide):
            if not self.subject.embedding:
                inputs = inputs.detach().double() if self.wide else inputs.detach().clone()
                leaves.append(inputs.requires_grad_())
            outputs = self._rows(module, inputs)
            if not outputs.requires_grad or not leaves:
                raise RefusedError("its outputs carry no gradient back to the token vectors")
            return torch.stack(
                [
                    _sizes(outputs[0, i], direction, leaves, places=inputs.shape[1])
                    for i, direction in zip(queries, directions, strict=True)
                ]
            )

    def _pass(self, inputs: Tensor) -> Tensor:
        # In training mode gradients are on, as in training: fused paths depend on it.
        with self._state(graph=self.training) as module:
            # A copy, because a model may write into what it is given.
            wide = self.wide and inputs.dtype in WIDE
            return self._rows(module, inputs.double() if wide else inputs.clone())

    def _rows(self, module: nn.Module | None, inputs: Tensor) -> Tensor:
        try:
            output = self.call(module, inputs)
            name = self.subject.name
            return rows_of(output, batch=len(inputs), places=inputs.shape[1], name=name)
        except RefusedError:
            raise
        except (Exception, SystemExit) as problem:  # the model's own code: its answer, whatever
            raise RefusedError(first_line(problem)) from problem

    @contextmanager
    def _state(self, *, graph: bool) -> Iterator[nn.Module | None]:
        module = self.specimen.wide if self.wide else self.specimen.module
        with (
            torch.set_grad_enabled(graph),
            seeded(self.seed),
            as_it_was(module, training=self.training),
            in_double() if self.wide else nullcontext(),
        ):
            yield module


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers from `seed` within; the streams outside go on as if nothing had happened."""
    # The generators themselves: `torch.manual_seed` takes milliseconds where CUDA is not in use.
    generators = [torch.default_generator]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        generators += torch.cuda.default_generators
    states = [generator.get_state() for generator in generators]
    before = random.getstate()
    for generator in generators:
        generator.manual_seed(seed)
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


@contextmanager
def as_it_was(module: nn.Module | None, *, training: bool) -> Iterator[None]:
    """The module in one mode; afterwards its flags and buffers are those from before."""
    if module is None:
        yield
        return
    parts = list(module.modules())
    flags = [part.training for part in parts]
    kept = [
        (part, key, buffer, buffer.detach().clone())
        for part in parts
        for key, buffer in part._buffers.items()
        if buffer is not None
    ]
    module.train(training)
    try:
        yield
    finally:
        for part, flag in zip(parts, flags, strict=True):
            if part.training != flag:  # mostly it is as it was, and setting it is slow
                part.training = flag
        with torch.no_grad():
            for part, key, buffer, value in kept:
                buffer.copy_(value)
                part._buffers[key] = buffer


@contextmanager
def _leaves(
    subject: Subject, module: nn.Module | None, leaves: list[Tensor], wide: bool
) -> Iterator[None]:
    """Cut the graph at the token vectors, which then gather gradients."""
    if not subject.embedding or module is None:
        yield
        return

    def cut(part: nn.Module, args: Any, output: Tensor) -> Tensor:
        vectors = output.detach().double() if wide else output.detach().clone()
        leaves.append(vectors.requires_grad_())
        return vectors

    handle = module.get_submodule(subject.embedding).register_forward_hook(cut)
    try:
        yield
    finally:
        handle.remove()


def _sizes(output: Tensor, direction: Tensor, leaves: list[Tensor], *, places: int) -> Tensor:
    """Largest entry of the gradient at each token vector of the first row, (t,).

    Not its length: squares of what a large penalty leaves would underflow to nothing.
    """
    found = torch.autograd.grad(
        output @ direction.to(output), leaves, retain_graph=True, allow_unused=True
    )
    sizes = [
        torch.zeros(leaf.shape[1])
        if gradient is None
        else gradient[0].abs().flatten(1).amax(dim=-1)
        for leaf, gradient in zip(leaves, found, strict=True)
    ]
    # A source beside the row is read by the same table; it has another length.
    if whole := [size.double().cpu() for size in sizes if len(size) == places]:
        return torch.stack(whole).amax(dim=0)
    if sum(len(size) for size in sizes) == places:  # pieces, as read through a cache
        return torch.cat([size.double().cpu() for size in sizes])
    raise RefusedError("its embedding is called in a way that gradients cannot be laid to places")


def first_line(problem: BaseException) -> str:
    text = str(problem).strip().splitlines()
    if isinstance(problem, UserError) and text:
        return text[0]  # a sentence for a person already
    return f"{type(problem).__name__}: {text[0][:160]}" if text else type(problem).__name__
