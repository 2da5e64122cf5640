"""The optimizer equals torch's AdamW bit for bit, and never imports torch's compiler."""

import sys

import pytest
import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from regard.training.optimizer import build_optimizer
from regard.training.settings import Train

SETTINGS = Train(lr=0.05, weight_decay=0.3)


def build_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3), nn.LayerNorm(3))


def train(model: nn.Module, optimizer: Optimizer) -> list[torch.Tensor]:
    for step in range(3):
        optimizer.zero_grad()
        model(torch.arange(5)).square()[step:].sum().backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def test_steps_equal_torch_adamw_bitwise() -> None:
    ours, theirs = build_model(), build_model()
    embedding, linear, norm = theirs.children()
    not_decayed = [embedding.weight, linear.bias, *norm.parameters()]
    groups = [
        {"params": [linear.weight], "weight_decay": SETTINGS.weight_decay},
        {"params": not_decayed, "weight_decay": 0.0},
    ]
    weights = train(ours, build_optimizer(ours, SETTINGS))
    expected = train(theirs, AdamW(groups, lr=SETTINGS.lr, fused=True))
    assert all(torch.equal(one, other) for one, other in zip(weights, expected, strict=True))
    before = build_model().parameters()
    assert not any(torch.equal(one, other) for one, other in zip(weights, before, strict=True))


def test_compiler_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # importing it now fails
    model = build_model()
    train(model, build_optimizer(model, SETTINGS))
    with pytest.raises(ImportError):
        train(model, AdamW(model.parameters()))
