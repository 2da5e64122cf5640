"""Unused parameters: trained parameters that can learn nothing from the data.

A parameter is unused when its gradient is missing, is zero (in float64, up to rounding: the key
bias shifts all scores of a query equally, and softmax is invariant to that), or is the same
whatever the data. Initial values can be special, so each is tried again with structural values
(`forward/structural.py`) before it is reported.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.audits.findings import UnusedParameter
from regard.audits.forward.float64 import force_float64
from regard.audits.forward.forward_mode import restored_after, seeded
from regard.audits.forward.structural import Draw, Replacement, structural_values
from regard.audits.subject import Subject, position_outputs

LossFunction = Callable[[nn.Module, int], Tensor]
"(module, seed of the data) -> a scalar loss"
Gradients = dict[str, "GradientSummary | None"]

ROUNDING = 1e-12
"Relative to the largest gradient of the model; float64 rounds at 2e-16."
EQUALITY_TOLERANCE = 1e-9
DATA_SEEDS = (0, 1, 2)
BATCH_SIZE, LENGTH = 8, 12


@dataclass(frozen=True)
class GradientSummary:
    """Stands in for a gradient: several whole ones of a large model do not fit into memory."""

    largest: float
    fingerprint: tuple[float, float]
    "Norm and one fixed projection: they differ where gradients differ."

    @classmethod
    def from_gradient(cls, gradient: Tensor) -> GradientSummary:
        flat = gradient.detach().flatten()
        direction = torch.arange(len(flat), device=flat.device).to(flat).cos()
        return cls(float(flat.abs().max()), (float(flat.norm()), float(flat @ direction)))


def find_unused_parameters(
    module: nn.Module, loss_fn: LossFunction, *, data_seeds: Sequence[int] = DATA_SEEDS
) -> list[UnusedParameter]:
    """The trained parameters that receive no gradient, or none that depends on the data.

    The module itself is not modified; dependence on the data takes at least two data seeds.
    """
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    why = dict.fromkeys(trained, "")
    copied = copy.deepcopy(module).double()
    for draw in (None, Draw.MIXED):
        values = Replacement({}) if draw is None else structural_values(module, draw)
        with values.applied(copied):
            gradients = [_gradients(copied, loss_fn, seed) for seed in data_seeds]
        why = {name: _why_unused(name, gradients) for name in why}
        why = {name: reason for name, reason in why.items() if reason}
        if not why:
            return []
    return [
        UnusedParameter(name, tuple(trained[name].shape), reason) for name, reason in why.items()
    ]


def random_target_loss(subject: Subject) -> LossFunction:
    """Mean squared error of the outputs on random inputs against random targets.

    Not a random projection: a linear loss gives an output bias a constant gradient.
    """

    def loss(module: nn.Module, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        length = LENGTH if subject.sample is None else subject.sample.shape[1]
        length = min(length, subject.max_length or length)
        inputs = subject.draw(BATCH_SIZE, length, generator)
        output = subject.run(module, inputs.double() if subject.width else inputs, None)
        outputs = position_outputs(output, batch=BATCH_SIZE, length=length, name=subject.name)
        targets = torch.randn(outputs.shape, generator=generator).to(outputs)
        return (outputs - targets).square().mean()

    return loss


def _gradients(module: nn.Module, loss_fn: LossFunction, seed: int) -> Gradients:
    """By parameter name; None where the loss does not depend on the parameter."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    with torch.enable_grad(), seeded(seed), restored_after(module, training=False), force_float64():
        loss = loss_fn(module, seed)
        if not loss.requires_grad:
            return dict.fromkeys(trained)
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    summaries = (None if one is None else GradientSummary.from_gradient(one) for one in found)
    return dict(zip(trained, summaries, strict=True))


def _why_unused(name: str, gradients: list[Gradients]) -> str:
    """Why no gradient depends on the data; empty where one does."""
    own = [by_name[name] for by_name in gradients]
    present = [gradient for gradient in own if gradient is not None]
    if not present:
        return "no gradient flows to it"
    if not any(gradient.largest > 0 for gradient in present):
        return "its gradient is zero"
    for by_name, gradient in zip(gradients, own, strict=True):
        largest = max((other.largest for other in by_name.values() if other is not None), default=0)
        if gradient is not None and gradient.largest > ROUNDING * largest:
            break
    else:
        return "its gradient is rounding noise only"
    if len(present) == len(own) > 1 and all(_equal(present[0], other) for other in present[1:]):
        return "its gradient is the same whatever the data"
    return ""


def _equal(one: GradientSummary, other: GradientSummary) -> bool:
    norm = one.fingerprint[0]
    return all(
        abs(a - b) <= EQUALITY_TOLERANCE * norm
        for a, b in zip(one.fingerprint, other.fingerprint, strict=True)
    )
