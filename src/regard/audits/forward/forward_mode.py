"""A forward mode: one deterministic way to run a model (train or eval, path, precision).

Each pass is seeded, so dropout draws the same mask; the module's training flags and buffers are
restored afterwards, so batch statistics of one pass do not affect the next, and the given model
stays unchanged.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.audits.forward.float64 import UPCAST, force_float64
from regard.audits.forward.noise import DrawLog, without_noise
from regard.audits.forward.structural import Draw, Replacement, structural_values
from regard.audits.subject import Subject, position_outputs
from regard.core.errors import UserError

Forward = Callable[[Any, Tensor], Any]
MAX_VALUES = 1 << 21
"Output values of one batch; more than the CPU's cache holds is slower."


class ForwardError(Exception):
    """The model did not run in this mode; the message is the first line of its own error."""


class AuditedCopy:
    """A copy of the subject's module, and one more in float64 when it is first needed."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.copy_error = ""
        self._structural: dict[Draw, Replacement] = {}
        self.module = subject.module
        if self.module is None:
            return
        try:
            self.module = copy.deepcopy(self.module)
        except Exception as problem:  # a module may hold anything; then the original is used
            self.copy_error = error_summary(problem)

    @cached_property
    def float64_module(self) -> nn.Module | None:
        """In float64; where no copy can be made, `force_float64` upcasts on the fly."""
        if self.module is None or self.copy_error:
            return self.module
        return copy.deepcopy(self.module).double()

    def structural(self, draw: Draw) -> Replacement:
        """Values of the subject's own module, since a copy has lost its gradient hooks."""
        assert self.subject.module is not None
        if draw not in self._structural:
            self._structural[draw] = structural_values(self.subject.module, draw)
        return self._structural[draw]


@dataclass(frozen=True)
class ForwardMode:
    """A subject run in one mode; `outputs` is a pure function of the inputs."""

    name: str
    audited: AuditedCopy
    forward: Forward
    training: bool = False
    float64: bool = False
    companion: Tensor | None = None
    "A second batch row (1,t), where rows of a batch influence each other and run one at a time."
    seed: int = 0
    replacement: Replacement | None = None
    "Values that parameters and buffers have during each pass."
    draws: DrawLog | None = field(default=None, compare=False)
    "Filled with the random draws of each pass."
    noiseless: bool = False
    "Constants stand for random draws."

    @property
    def subject(self) -> Subject:
        return self.audited.subject

    @property
    def dtype(self) -> torch.dtype:
        """Of the model's parameters; torch's default where there is no module."""
        parameters = () if self.audited.module is None else self.audited.module.parameters()
        floats = (parameter.dtype for parameter in parameters if parameter.is_floating_point())
        return torch.float64 if self.float64 else next(floats, torch.get_default_dtype())

    def in_float64(self) -> ForwardMode:
        return replace(self, float64=True)

    def outputs(self, inputs: Tensor) -> Tensor:
        """(b,t) ids or (b,t,w) embeddings -> (b,t,f), detached."""
        if self.companion is None:
            return self._pass(inputs).detach()
        beside = self.companion[:, : inputs.shape[1]]
        rows = [self._pass(torch.cat([row[None], beside]))[:1].detach() for row in inputs]
        return torch.cat(rows)

    def gradients(self, inputs: Tensor, coefficients: Tensor) -> Tensor:
        """|d(Σᵢ coefficientᵢ · output at i) / d(embedding j)| of each row: (n,t), (n,t) -> (n,t).

        One random projection of the output features serves all positions; of each embedding's
        gradient the largest absolute entry is taken. One backward pass for all rows.
        """
        if self.companion is None:
            return self._gradients(inputs, coefficients)
        beside = self.companion[:, : inputs.shape[1]]
        silent = torch.zeros_like(coefficients[:1])
        rows = zip(inputs, coefficients, strict=True)
        return torch.cat(
            [
                self._gradients(torch.cat([row[None], beside]), torch.cat([own[None], silent]))[:1]
                for row, own in rows
            ]
        )

    @contextmanager
    def graph(self, inputs: Tensor, forward: Forward) -> Iterator[Tensor]:
        """Outputs of another forward in this mode, while gradients can be taken."""
        with self._state(graph=True) as module:
            upcast = self.float64 and inputs.dtype in UPCAST
            yield replace(self, forward=forward)._run(
                module, inputs.double() if upcast else inputs.clone()
            )

    def _gradients(self, inputs: Tensor, coefficients: Tensor) -> Tensor:
        leaves: list[Tensor] = []
        with self._state(graph=True) as module, _leaves(self.subject, module, leaves, self.float64):
            if not self.subject.embedding:
                inputs = inputs.detach().double() if self.float64 else inputs.detach().clone()
                leaves.append(inputs.requires_grad_())
            outputs = self._run(module, inputs)
            if not outputs.requires_grad or not leaves:
                raise ForwardError("its outputs carry no gradient back to the token embeddings")
            generator = torch.Generator().manual_seed(self.seed)
            direction = torch.randn(outputs.shape[-1], generator=generator)
            total = ((outputs @ direction.to(outputs)) * coefficients.to(outputs)).sum()
            return _gradient_sizes(total, leaves, shape=tuple(inputs.shape[:2]))

    def _pass(self, inputs: Tensor) -> Tensor:
        # In training mode gradients are enabled, as in training: fused paths depend on it.
        with self._state(graph=self.training) as module:
            # A copy, because a model may write into its inputs.
            upcast = self.float64 and inputs.dtype in UPCAST
            return self._run(module, inputs.double() if upcast else inputs.clone())

    def _run(self, module: nn.Module | None, inputs: Tensor) -> Tensor:
        try:
            with nullcontext() if self.draws is None else self.draws.recorded(inputs):
                output = self.forward(module, inputs)
            name = self.subject.name
            return position_outputs(output, batch=len(inputs), length=inputs.shape[1], name=name)
        except ForwardError:
            raise
        except (Exception, SystemExit) as problem:  # foreign code may raise anything
            raise ForwardError(error_summary(problem)) from problem

    @contextmanager
    def _state(self, *, graph: bool) -> Iterator[nn.Module | None]:
        module = self.audited.float64_module if self.float64 else self.audited.module
        with (
            torch.set_grad_enabled(graph),
            seeded(self.seed),
            restored_after(module, training=self.training),
            force_float64() if self.float64 else nullcontext(),
            without_noise() if self.noiseless else nullcontext(),
            _replaced(module, self.replacement),
        ):
            yield module


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed all random generators within; their outer states are restored."""
    # The generators directly: `torch.manual_seed` takes milliseconds where CUDA is not in use.
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
def restored_after(module: nn.Module | None, *, training: bool) -> Iterator[None]:
    """Set train or eval mode within; training flags and buffers are restored afterwards."""
    if module is None:
        yield
        return
    submodules = list(module.modules())
    flags = [submodule.training for submodule in submodules]
    buffers = [
        (submodule, key, buffer, buffer.detach().clone())
        for submodule in submodules
        for key, buffer in submodule._buffers.items()
        if buffer is not None
    ]
    module.train(training)
    try:
        yield
    finally:
        for submodule, flag in zip(submodules, flags, strict=True):
            if submodule.training != flag:  # mostly unchanged, and setting it is slow
                submodule.training = flag
        with torch.no_grad():
            for submodule, key, buffer, value in buffers:
                buffer.copy_(value)
                submodule._buffers[key] = buffer


@contextmanager
def _leaves(
    subject: Subject, module: nn.Module | None, leaves: list[Tensor], float64: bool
) -> Iterator[None]:
    """Detach the token embeddings, which become the leaves that gradients are taken to."""
    if not subject.embedding or module is None:
        yield
        return

    def detach(embedding: nn.Module, args: Any, output: Tensor) -> Tensor:
        leaf = output.detach().double() if float64 else output.detach().clone()
        leaves.append(leaf.requires_grad_())
        return leaf

    handle = module.get_submodule(subject.embedding).register_forward_hook(detach)
    try:
        yield
    finally:
        handle.remove()


def _gradient_sizes(total: Tensor, leaves: list[Tensor], *, shape: tuple[int, ...]) -> Tensor:
    """Largest absolute entry of the gradient to each embedding, (n,t).

    Not its norm: after a large negative mask value the squares would underflow to zero.
    """
    try:
        gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    except RuntimeError as problem:  # a cache is written in place, a kernel has no gradient
        raise ForwardError(error_summary(problem)) from problem
    sizes = [
        torch.zeros(leaf.shape[:2]).double()
        if gradient is None
        else gradient.abs().flatten(2).amax(dim=-1).double().cpu()
        for leaf, gradient in zip(leaves, gradients, strict=True)
    ]
    # A source sequence may use the same embedding; it has another length.
    if whole := [size for size in sizes if tuple(size.shape) == shape]:
        return torch.stack(whole).amax(dim=0)
    if sum(size.shape[1] for size in sizes) == shape[1]:  # chunks, as run with a KV cache
        return torch.cat(sizes, dim=1)
    raise ForwardError("gradients at its embedding cannot be assigned to positions")


def _replaced(
    module: nn.Module | None, replacement: Replacement | None
) -> AbstractContextManager[None]:
    if module is None or replacement is None:
        return nullcontext()
    return replacement.applied(module)


def error_summary(problem: BaseException) -> str:
    """First line of an error, for a sentence."""
    lines = str(problem).strip().splitlines()
    if isinstance(problem, UserError) and lines:
        return lines[0]  # written for the user already
    return f"{type(problem).__name__}: {lines[0][:160]}" if lines else type(problem).__name__
