"""Gradient reach: what can learn nothing is named, and nothing else."""

import torch
import torch.nn.functional as F
from tests.audits.clean_models import argmax
from tests.audits.toy_models import Parts, Toy
from torch import Tensor, nn

from regard.audits.build_subject import build_subject
from regard.audits.unused_parameters import (
    UnusedParameter,
    find_unused_parameters,
    random_target_loss,
)


class Attention(nn.Module):
    """One head with biases everywhere."""

    def __init__(self, *, hard: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.normalise = argmax if hard else lambda scores, allowed: scores.softmax(dim=-1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        weights: Tensor = self.normalise(scores, torch.ones_like(scores, dtype=torch.bool))
        return weights @ self.value(x)


def unused_parameters(module: nn.Module) -> dict[str, str]:
    found = find_unused_parameters(module, random_target_loss(build_subject(module)))
    return {one.name: one.why for one in found}


def test_the_bias_of_keys_can_learn_nothing_under_a_softmax() -> None:
    assert unused_parameters(Attention()) == {"key.bias": "its gradient is rounding noise only"}


def test_hard_attention_trains_no_query_and_no_key() -> None:
    found = unused_parameters(Attention(hard=True))
    assert set(found) == {"query.weight", "query.bias", "key.weight", "key.bias"}


def test_all_of_a_toy_is_reached() -> None:
    assert unused_parameters(Toy(Parts(layers=2))) == {}


class Spare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.unused = nn.Linear(8, 8)
        self.times_zero = nn.Parameter(torch.randn(8))
        self.frozen = nn.Parameter(torch.randn(8), requires_grad=False)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.tokens(ids) + 0.0 * self.times_zero
        return x


def test_what_takes_no_part_is_named_with_its_shape() -> None:
    found = find_unused_parameters(Spare(), random_target_loss(build_subject(Spare())))
    assert UnusedParameter("unused.weight", (8, 8), "no gradient flows to it") in found
    assert UnusedParameter("times_zero", (8,), "its gradient is zero") in found
    assert "frozen" not in {one.name for one in found}


class ZeroStart(nn.Module):
    """Everything behind a matrix that starts at zero, as residual branches often do."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.inner, self.outer = nn.Linear(8, 8), nn.Linear(8, 8)
        nn.init.zeros_(self.outer.weight)
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        y: Tensor = x + self.gate * self.outer(F.gelu(self.inner(x)))
        return y


def test_what_a_zero_hides_at_the_start_is_not_out_of_reach() -> None:
    assert unused_parameters(ZeroStart()) == {}


def test_a_gradient_that_ignores_the_data_is_named() -> None:
    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4))
            self.shift = nn.Parameter(torch.randn(4))

    def loss(module: Shift, seed: int) -> Tensor:
        data = torch.randn(4, generator=torch.Generator().manual_seed(seed))
        return (module.weight * data).sum() + module.shift.square().sum()

    found = find_unused_parameters(Shift(), loss)  # type: ignore[arg-type]
    assert [(one.name, one.why) for one in found] == [
        ("shift", "its gradient is the same whatever the data")
    ]


def test_the_module_is_left_as_it_was() -> None:
    model = ZeroStart()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    unused_parameters(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training
