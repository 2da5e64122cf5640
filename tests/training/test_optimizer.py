"""The optimizer takes the very steps of torch's AdamW, and never asks for torch's compiler."""

import sys

import pytest
import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from regard.training.optimizer import build_optimizer
from regard.training.settings import Train

SETTINGS = Train(lr=0.05, weight_decay=0.3)


def made() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3), nn.LayerNorm(3))


def trained(model: nn.Module, optimizer: Optimizer) -> list[torch.Tensor]:
    for step in range(3):
        optimizer.zero_grad()
        model(torch.arange(5)).square()[step:].sum().backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def test_its_steps_are_those_of_torch_to_the_bit() -> None:
    ours, theirs = made(), made()
    embedding, linear, norm = theirs.children()
    spared = [embedding.weight, linear.bias, *norm.parameters()]
    groups = [
        {"params": [linear.weight], "weight_decay": SETTINGS.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    weights = trained(ours, build_optimizer(ours, SETTINGS))
    expected = trained(theirs, AdamW(groups, lr=SETTINGS.lr, fused=True))
    assert all(torch.equal(one, other) for one, other in zip(weights, expected, strict=True))
    before = made().parameters()
    assert not any(torch.equal(one, other) for one, other in zip(weights, before, strict=True))


def test_the_compiler_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # to import it is an error now
    model = made()
    trained(model, build_optimizer(model, SETTINGS))
    with pytest.raises(ImportError):
        trained(model, AdamW(model.parameters()))
