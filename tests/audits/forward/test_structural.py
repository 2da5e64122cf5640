"""Structural values: all of them random, none degenerate, and gone afterwards."""

import pytest
import torch
from torch import nn

from regard.audits.forward.structural import (
    AFTER_WARMUP,
    Draw,
    fixed_zeros,
    structural_values,
    values_for_zeros,
)


class Odd(nn.Module):
    """Every sort of tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4) * (torch.arange(4) > 1))
        self.zeros = nn.Parameter(torch.zeros(3, 4))
        self.gate = nn.Parameter(torch.tensor(-1.0))
        self.fill = nn.Parameter(torch.tensor([-1e9, 0.5]))
        self.infinite = nn.Parameter(torch.full((3, 3), -torch.inf).triu(1))
        self.held = nn.Parameter(torch.tensor([1.0, 0.0]))
        self.held.register_hook(lambda gradient: gradient * torch.tensor([1.0, 0.0]))
        self.frozen = nn.Parameter(torch.zeros(2), requires_grad=False)
        self.tied = self.weight
        self.register_buffer("mask", torch.ones(3, 3).tril())
        self.register_buffer("schedule", torch.zeros(()))
        self.register_buffer("count", torch.zeros(1, dtype=torch.long))
        self.register_buffer("types", torch.zeros(3, dtype=torch.long))
        self.plain = torch.zeros(2)


@pytest.mark.parametrize("draw", Draw)
def test_values_are_not_degenerate(draw: Draw) -> None:
    torch.manual_seed(0)
    module = Odd()
    values = structural_values(module, draw).values
    assert set(values) == {"weight", "zeros", "gate", "fill", "infinite", "held"}
    for name in ("weight", "zeros", "gate"):
        assert bool((values[name] != 0).all())
        assert bool(torch.isfinite(values[name]).all())
    assert float(values["fill"][0]) == -1e9
    assert bool(torch.isinf(values["infinite"]).equal(torch.isinf(module.infinite)))
    assert float(values["held"][1]) == 0.0 != float(values["held"][0])
    assert draw is Draw.MIXED or (float(values["gate"]) > 0) == (draw is Draw.POSITIVE)
    rms = float(module.weight.detach()[:, 2:].square().mean().sqrt())
    assert float(values["weight"].square().mean().sqrt()) == pytest.approx(rms, rel=0.5)


def test_only_zeros_that_nothing_trains_are_fixed_zeros() -> None:
    assert set(fixed_zeros(Odd())) == {"frozen", "schedule", "plain", "count"}


def test_counters_are_set_past_a_warm_up_and_switches_on() -> None:
    zeros = {"count": torch.zeros((), dtype=torch.long), "on": torch.tensor(False)}
    by_draw = {draw: values_for_zeros(zeros, draw).values for draw in Draw}
    assert by_draw[Draw.POSITIVE]["count"] >= AFTER_WARMUP
    assert by_draw[Draw.NEGATIVE]["count"] <= -AFTER_WARMUP
    assert {abs(int(by_draw[draw]["count"])) for draw in (Draw.MIXED, Draw.OPPOSITE)} <= {1, 2}
    assert all(bool(values["on"]) for values in by_draw.values())


def test_of_a_frozen_model_every_parameter_is_replaced() -> None:
    module = nn.Linear(2, 2).requires_grad_(False)
    assert set(structural_values(module, Draw.MIXED).values) == {"weight", "bias"}


@pytest.mark.parametrize("problem", [None, ValueError])
def test_replaced_values_are_restored_bit_for_bit(problem: type[Exception] | None) -> None:
    module = Odd()
    everything = [*module.parameters(), *module.buffers(), module.plain]
    before = [(one, one.data_ptr(), one.detach().clone()) for one in everything]
    zeros = values_for_zeros(fixed_zeros(module), Draw.POSITIVE)
    values = structural_values(module, Draw.POSITIVE)
    values.values.update(zeros.values)
    try:
        with values.applied(module):
            assert module.tied is module.weight
            assert torch.equal(module.weight, values.values["weight"])
            assert bool((module.schedule > 0).all())
            assert bool((module.plain > 0).all())
            if problem is not None:
                raise problem
    except ValueError:
        assert problem is not None
    after = [*module.parameters(), *module.buffers(), module.plain]
    for own, (old, address, value) in zip(after, before, strict=True):
        assert own is old
        assert own.data_ptr() == address
        assert torch.equal(own, value)
