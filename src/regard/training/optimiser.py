"""AdamW and the learning rate's path: linear warm-up, then a cosine down to a floor.

    lr(s) = lr · s/W                                            s ≤ W   (W = warm-up steps)
    lr(s) = lr · (f + (1 − f) · ½(1 + cos(π (s − W)/(S − W))))  s > W   (f = floor, S = all steps)

Loshchilov and Hutter, 2017 and 2019. Steps count from 1.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.optim import AdamW

from regard.training.settings import Train


def build_optimiser(model: nn.Module, settings: Train) -> AdamW:
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    decayed: list[nn.Parameter] = []
    spared: list[nn.Parameter] = []
    for parameter in filter(lambda one: one.requires_grad, model.parameters()):
        is_matrix = parameter.ndim >= 2 and id(parameter) not in embeddings
        (decayed if is_matrix else spared).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    if not decayed + spared:  # nothing is trained, and AdamW would refuse to hold nothing
        spared.append(nn.Parameter(torch.empty(0)))
    return AdamW([group for group in groups if group["params"]], lr=settings.lr, fused=True)


def learning_rate(step: int, *, steps: int, settings: Train) -> float:
    warmup = round(settings.warmup * steps)
    if step <= warmup:
        return settings.lr * step / warmup
    done = (step - warmup) / max(1, steps - warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    return settings.lr * (settings.lr_floor + (1 - settings.lr_floor) * cosine)
