"""The optimizer: AdamW (Loshchilov and Hutter, 2019), with weight decay on matrices only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import unwrap
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW

from regard.training.settings import Train


class EagerAdamW(AdamW):
    """torch's AdamW without its wrappers for `torch.compile`, which compiles no optimizer here: the
    first call of a wrapper imports the compiler, two seconds in every process that trains."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        unwrap(AdamW.add_param_group)(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        unwrap(AdamW.zero_grad)(self, set_to_none)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        return unwrap(AdamW.step)(self, closure)


def build_optimizer(
    model: nn.Module, settings: Train, *, parts: Mapping[str, nn.Parameter] | None = None
) -> AdamW:
    """AdamW over the trainable parameters, or over this rank's part of each, by name; biases, norms
    and embeddings are not decayed."""
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    decayed: list[nn.Parameter] = []
    not_decayed: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_matrix = parameter.ndim >= 2 and id(parameter) not in embeddings
            updated = parameter if parts is None else parts[name]
            (decayed if is_matrix else not_decayed).append(updated)
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": not_decayed, "weight_decay": 0.0},
    ]
    if not decayed + not_decayed:  # AdamW refuses an empty parameter list
        not_decayed.append(nn.Parameter(torch.empty(0)))
    return EagerAdamW([group for group in groups if group["params"]], lr=settings.lr, fused=True)
