"""Arguments that a foreign forward takes beside its ids: mask, token types, position ids.

The values here are the true ones of a row without padding; forward modes give others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

Values = Callable[[Tensor], Tensor]
"Inputs (b,t) or (b,t,w) -> an argument (b,t)."

MASK = "attention_mask"
TYPES = "token_type_ids"
POSITIONS = "position_ids"
MASK_DTYPES = (torch.long, torch.bool, torch.float32)


def ones(inputs: Tensor) -> Tensor:
    return torch.ones(inputs.shape[:2], dtype=torch.long, device=inputs.device)


def positions(inputs: Tensor) -> Tensor:
    return torch.arange(inputs.shape[1], device=inputs.device).expand(inputs.shape[:2])


def shifted_positions(by: int) -> Values:
    return lambda inputs: positions(inputs) + by


def two_types(inputs: Tensor) -> Tensor:
    """0 in the first half of each row, 1 in the second, as for a pair of texts."""
    return (positions(inputs) >= inputs.shape[1] // 2).long()


TRUE_VALUES: Mapping[str, Values] = {
    MASK: ones,
    TYPES: lambda inputs: torch.zeros_like(ones(inputs)),
    POSITIONS: positions,
}


def accepted_arguments(module: nn.Module) -> tuple[str, ...]:
    """Those of the three that `forward` takes by name."""
    parameters = inspect.signature(module.forward).parameters
    return tuple(name for name in TRUE_VALUES if name in parameters)


def required_arguments(module: nn.Module) -> tuple[str, ...]:
    """Those without a default."""
    parameters = inspect.signature(module.forward).parameters
    return tuple(
        name
        for name in accepted_arguments(module)
        if parameters[name].default is inspect.Parameter.empty
    )


def other_arguments(module: nn.Module) -> tuple[str, ...]:
    """Those of `forward` that keep their defaults: all but the inputs and the three."""
    parameters = list(inspect.signature(module.forward).parameters.values())[1:]
    stars = {"VAR_KEYWORD": "**", "VAR_POSITIONAL": "*"}
    others = [one for one in parameters if one.name not in TRUE_VALUES]
    return tuple(stars.get(one.kind.name, "") + one.name for one in others)


def call_with_arguments(
    module: Any, inputs: Tensor, given: Mapping[str, Tensor], *, mask_dtype: torch.dtype
) -> Any:
    """Run a module with these arguments, and true values for any other that it requires."""
    values = {name: TRUE_VALUES[name](inputs) for name in required_arguments(module)} | dict(given)
    if MASK in values:
        values[MASK] = values[MASK].to(mask_dtype)
    return module(inputs, **values)
