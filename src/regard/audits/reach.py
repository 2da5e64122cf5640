"""Gradient reach: parameters that can learn nothing from the data.

A parameter is out of reach when its gradient is missing, is zero (in float64, up to rounding: the
bias of keys moves all scores of a query alike, and a softmax does not see that), or is the same
whatever the data. Values at the start can be special, so each is tried again on a shaken copy
(`shaken.py`) before it is reported.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.audits.forward.double import in_double
from regard.audits.forward.forward_mode import as_it_was, seeded
from regard.audits.forward.perturbed import shake
from regard.audits.subject import Subject, rows_of

LossOf = Callable[[nn.Module, int], Tensor]
"(module, seed of the data) -> a loss, one number"
Gradients = dict[str, "GradientSummary | None"]

NOISE = 1e-12
"Relative to the largest gradient of the model; float64 rounds at 2e-16."
SAME = 1e-9
DATA_SEEDS = (0, 1, 2)
ROWS, PLACES = 8, 12


@dataclass(frozen=True)
class GradientSummary:
    """What is kept of a gradient: large models have no room for several whole ones."""

    largest: float
    mark: tuple[float, float]
    "Two numbers that differ where gradients do: its length and one projection."

    @classmethod
    def of(cls, gradient: Tensor) -> GradientSummary:
        flat = gradient.detach().flatten()
        along = torch.arange(len(flat), device=flat.device).to(flat).cos()
        return cls(float(flat.abs().max()), (float(flat.norm()), float(flat @ along)))


@dataclass(frozen=True)
class UnusedParameter:
    """A trained parameter that no data can move."""

    name: str
    shape: tuple[int, ...]
    why: str


def find_unused_parameters(
    module: nn.Module, loss_of: LossOf, *, data_seeds: Sequence[int] = DATA_SEEDS
) -> list[UnusedParameter]:
    """The trained parameters that receive no gradient, or none that depends on the data.

    The module itself is not touched; at least two data seeds are needed to tell.
    """
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    why = dict.fromkeys(trained, "")
    for shaken in (None, 0, 1):
        specimen = copy.deepcopy(module).double()
        if shaken is not None:
            shake(specimen, shaken)
        gradients = [_gradients(specimen, loss_of, seed) for seed in data_seeds]
        why = {name: _out_of_reach(name, gradients) for name in why}
        why = {name: reason for name, reason in why.items() if reason}
        if not why:
            return []
    return [
        UnusedParameter(name, tuple(trained[name].shape), reason) for name, reason in why.items()
    ]


def loss_of_subject(subject: Subject) -> LossOf:
    """Squared distance of the outputs from random ones, on random inputs.

    Not a random projection: a linear loss gives an output bias the same gradient always.
    """

    def loss(module: nn.Module, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        places = PLACES if subject.sample is None else subject.sample.shape[1]
        places = min(places, subject.longest or places)
        inputs = subject.draw(ROWS, places, generator)
        output = subject.run(module, inputs.double() if subject.width else inputs, None)
        rows = rows_of(output, batch=ROWS, places=places, name=subject.name)
        target = torch.randn(rows.shape, generator=generator).to(rows)
        return (rows - target).square().mean()

    return loss


def _gradients(module: nn.Module, loss_of: LossOf, seed: int) -> Gradients:
    """By parameter name; a parameter that takes no part has None."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    with torch.enable_grad(), seeded(seed), as_it_was(module, training=False), in_double():
        loss = loss_of(module, seed)
        if not loss.requires_grad:
            return dict.fromkeys(trained)
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    felt = (None if gradient is None else GradientSummary.of(gradient) for gradient in found)
    return dict(zip(trained, felt, strict=True))


def _out_of_reach(name: str, gradients: list[Gradients]) -> str:
    """Why nothing moves this parameter; empty where something does."""
    mine = [by_name[name] for by_name in gradients]
    present = [felt for felt in mine if felt is not None]
    if not present:
        return "no gradient flows to it"
    if not any(felt.largest > 0 for felt in present):
        return "its gradient is zero"
    for by_name, felt in zip(gradients, mine, strict=True):
        largest = max((other.largest for other in by_name.values() if other is not None), default=0)
        if felt is not None and felt.largest > NOISE * largest:
            break
    else:
        return "its gradient is rounding noise only"
    if len(present) == len(mine) > 1 and all(_same(present[0], other) for other in present[1:]):
        return "its gradient is the same whatever the data"
    return ""


def _same(one: GradientSummary, other: GradientSummary) -> bool:
    length = one.mark[0]
    return all(abs(a - b) <= SAME * length for a, b in zip(one.mark, other.mark, strict=True))
