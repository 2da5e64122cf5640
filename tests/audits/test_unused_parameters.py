"""Unused parameters are reported, used ones are not."""

import torch
import torch.nn.functional as F
from tests.audits.clean_models import argmax
from tests.audits.toy_models import Components, ToyTransformer
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


def test_key_bias_is_unused_under_softmax() -> None:
    assert unused_parameters(Attention()) == {"key.bias": "its gradient is rounding noise only"}


def test_query_and_key_of_hard_attention_are_unused() -> None:
    found = unused_parameters(Attention(hard=True))
    assert set(found) == {"query.weight", "query.bias", "key.weight", "key.bias"}


def test_toy_transformer_has_no_unused_parameters() -> None:
    assert unused_parameters(ToyTransformer(Components(layers=2))) == {}


class WithUnused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.unused = nn.Linear(8, 8)
        self.times_zero = nn.Parameter(torch.randn(8))
        self.frozen = nn.Parameter(torch.randn(8), requires_grad=False)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.tokens(ids) + 0.0 * self.times_zero
        return x


def test_unused_parameters_are_reported_with_shape_and_reason() -> None:
    found = find_unused_parameters(WithUnused(), random_target_loss(build_subject(WithUnused())))
    assert UnusedParameter("unused.weight", (8, 8), "no gradient flows to it") in found
    assert UnusedParameter("times_zero", (8,), "its gradient is zero") in found
    assert "frozen" not in {one.name for one in found}


class ZeroInitialised(nn.Module):
    """A branch behind a zero-initialised matrix, as residual branches often have."""

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


def test_parameters_behind_a_zero_initialised_layer_are_used() -> None:
    assert unused_parameters(ZeroInitialised()) == {}


def test_gradient_independent_of_the_data_is_reported() -> None:
    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4))
            self.shift = nn.Parameter(torch.randn(4))

    def loss(module: Shift, seed: int) -> Tensor:
        data = torch.randn(4, generator=torch.Generator().manual_seed(seed))
        return (module.weight * data).sum() + module.shift.square().sum()

    found = find_unused_parameters(Shift(), loss)  # type: ignore[arg-type]
    [unused] = found
    assert unused.name == "shift"
    assert "the same whatever the data" in unused.why


def test_module_is_unchanged() -> None:
    model = ZeroInitialised()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    unused_parameters(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training
