"""NaN or infinity in a weight, a gradient, a loss or a hidden state, at any step of a training."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from safetensors.torch import load_file
from tests.torture.commands import tortured, without_charts
from tests.torture.harness import Failure, Target
from tests.torture.training import RUN, Reference, fresh_copy, train_reference
from torch import Tensor

from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.loss import LossTerm

BAD = (math.nan, math.inf, -math.inf, 3e38, -3e38)
PLACES = ("weight", "hidden", "loss", "gradient")


def poison(tensor: Tensor, value: float, generator: random.Random) -> None:
    with torch.no_grad():
        tensor.view(-1)[generator.randrange(tensor.numel())] = value


def poisoned_head(
    generator: random.Random, place: str, value: float, at: int
) -> Callable[..., LossTerm]:
    original, calls = LanguageModelHead.loss_term_after_transform, [0]

    def loss_term(self: LanguageModelHead, y: Tensor, **named: Any) -> LossTerm:
        calls[0] += 1
        if calls[0] != at:
            return original(self, y, **named)
        if place == "weight":
            poison(self.tokens.weight.detach(), value, generator)
        if place == "hidden":
            y = y.clone()
            poison(y.detach(), value, generator)
        if place == "gradient" and y.requires_grad:
            y.register_hook(lambda gradient: gradient * value)
        term = original(self, y, **named)
        return LossTerm(term.sum * value, term.weight) if place == "loss" else term

    return loss_term


def trial(reference: Reference, generator: random.Random, folder: Path) -> str:
    workspace = fresh_copy(reference, folder)
    place, value, at = generator.choice(PLACES), generator.choice(BAD), generator.randrange(1, 30)
    head = poisoned_head(generator, place, value, at)
    with without_charts(), mock.patch.object(LanguageModelHead, "loss_term_after_transform", head):
        result = tortured(workspace, "train", "tiny.toml", "--resume")
    run = workspace.folder / RUN
    for file in run.rglob("*.safetensors"):
        for name, tensor in load_file(file).items():
            if not tensor.isfinite().all():
                raise Failure("believed", f"{file.relative_to(run)}: {name} after {place} {value}")
    if result.exit_code:
        return "stopped and said"
    rows = json.loads((run / "results.json").read_text(encoding="utf-8"))["estimates"]
    if not all(math.isfinite(row["value"]) for row in rows):
        raise Failure("believed", f"a score that is not finite after {place} {value}")
    return "no number of it left"


TARGET = Target(
    "non-finite numbers",
    "NaN, infinity and 3e38 in weights, hidden states, losses and gradients, at any step",
    200,
    trial,
    train_reference,
)
