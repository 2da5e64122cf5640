"""The optimizer: AdamW (Loshchilov and Hutter, 2019), decaying matrices and nothing else."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import AdamW

from regard.training.settings import Train


def build_optimizer(model: nn.Module, settings: Train) -> AdamW:
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
