"""Structural values: what a model could do, whatever its weights happen to be.

A zero conceals what is behind it: a gate, a column of an output projection, relu(−1). Structural
values replace every trained parameter by random ones in the range of its own initialisation:
matrices by normal noise of their RMS (of the model's typical one, where zero), vectors and
constants by magnitudes about 1, as the weights of norms have, with the signs of one `Draw`. Where
all signs are equal, larger ones keep their size: sigmoid(−200) opens at 200, exp(−200) at 1.
Left alone are mask values (not finite, or 1,000 and more) and what a parameter's own gradient hook
holds still.

Tensors that nothing trains and that stay zero (buffers, frozen parameters, plain attributes; of
whole numbers and booleans only lone ones, counters and switches) are another set: masks, rotary
tables and indices are buffers too, and are never zero throughout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum

import torch
from torch import Tensor, nn

MASK_VALUE = 1e3
"Values of this size are masks: −10,000, −1e9, the smallest float."
DEFAULT_STD = 0.1
"Of a zero matrix in a model without any other."

AFTER_WARMUP = 1e6
"Steps that a counter is set to: schedules have ended by then."


class Draw(Enum):
    """Signs of vectors and constants: a gate may open on either side."""

    POSITIVE = 1
    NEGATIVE = 2
    MIXED = 3
    "Entries at random; lone numbers in turn, so that two that have to differ do."
    OPPOSITE = 4
    "Of `MIXED`."


class Replacement:
    """New values by tensor name; compared by identity, so a forward mode can hold it."""

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        self.values = dict(values)

    def restricted_to(self, names: list[str]) -> Replacement:
        return Replacement({name: self.values[name] for name in names})

    @contextmanager
    def applied(self, module: nn.Module) -> Iterator[None]:
        """Within: the new values; afterwards the very tensors that were there before."""
        parameters = dict(module.named_parameters())
        held: list[tuple[nn.Parameter, Tensor]] = []
        fixed: list[tuple[dict[str, Tensor], str, Tensor]] = []
        try:
            for name, value in self.values.items():
                if name in parameters:
                    held.append((parameters[name], parameters[name].data))
                    parameters[name].data = value.to(parameters[name])
                    continue
                path, _, key = name.rpartition(".")
                owner = _tensors(module.get_submodule(path))[key]
                fixed.append((owner, key, owner[key]))
                owner[key] = value.to(owner[key])
            yield
        finally:
            for parameter, data in held:
                parameter.data = data
            for owner, key, tensor in fixed:
                owner[key] = tensor


def structural_values(module: nn.Module, draw: Draw) -> Replacement:
    """Values for every trained parameter, or for all of a model that is frozen throughout."""
    parameters = dict(module.named_parameters())
    floats = {n: p for n, p in parameters.items() if p.is_floating_point() or p.is_complex()}
    trained = {n: p for n, p in floats.items() if p.requires_grad} or floats
    default = _typical_std(trained)
    signs = _Signs(draw)
    values = {}
    for name, parameter in trained.items():
        own = parameter.detach()
        new = _structural(own, signs, default)
        for hook in (parameter._backward_hooks or {}).values():
            # What training adds up are gradients that went through this hook.
            moved = hook(new - own)
            new = new if moved is None else own + moved
        values[name] = new
    return Replacement(values)


def fixed_zeros(module: nn.Module) -> dict[str, Tensor]:
    """Floats, and lone counters and switches, that nothing trains and that are zero, by name."""
    found = {
        name: parameter.detach()
        for name, parameter in module.named_parameters()
        if not parameter.requires_grad and _is_zero(parameter)
    }
    for path, submodule in module.named_modules():
        for key, tensors in _tensors(submodule).items():
            if _is_zero(tensors[key]):
                found[f"{path}.{key}" if path else key] = tensors[key]
    return found


def values_for_zeros(zeros: Mapping[str, Tensor], draw: Draw) -> Replacement:
    signs = _Signs(draw)
    return Replacement({name: _signed_magnitudes(zero, signs) for name, zero in zeros.items()})


def by_suspicion(module: nn.Module, replacement: Replacement) -> list[str]:
    """Names, those first whose own values conceal most: zero, constant, partly zero."""
    parameters = dict(module.named_parameters())

    def rank(name: str) -> int:
        own = parameters.get(name)
        if own is None or not bool(own.detach().any()):
            return 0
        if _is_constant(own.detach()):
            return 1
        return 2 if bool((own.detach() == 0).any()) else 3

    return sorted(replacement.values, key=rank)


def _tensors(module: nn.Module) -> dict[str, dict[str, Tensor]]:
    """The dictionary that holds each tensor which is no parameter: buffers, plain attributes."""
    buffers = {key: module._buffers for key, one in module._buffers.items() if one is not None}
    plain = {key: vars(module) for key, one in vars(module).items() if isinstance(one, Tensor)}
    return {**plain, **buffers}


def _is_zero(tensor: Tensor) -> bool:
    # Several whole numbers are ids or indices: another value would mean another thing.
    counted = tensor.is_floating_point() or tensor.numel() == 1
    return counted and tensor.numel() > 0 and not bool(tensor.detach().any())


def _is_mask_value(values: Tensor) -> Tensor:
    return ~torch.isfinite(values) | (values.abs() >= MASK_VALUE)


def _is_constant(values: Tensor) -> bool:
    flat = values.flatten()
    return bool((flat == flat[:1]).all())


def _typical_std(parameters: Mapping[str, Tensor]) -> float:
    """Median RMS of the model's matrices."""
    real = [p.detach() for p in parameters.values() if not p.is_complex()]
    matrices = [p for p in real if p.dim() > 1 and not _is_constant(p)]
    sizes = sorted(size for size in map(_rms_of_nonzero, matrices) if size > 0)
    return sizes[len(sizes) // 2] if sizes else DEFAULT_STD


def _rms_of_nonzero(values: Tensor) -> float:
    counted = torch.where(_is_mask_value(values), 0.0, values).float()
    nonzero = int(counted.count_nonzero())
    return float(counted.norm()) / math.sqrt(nonzero) if nonzero else 0.0


class _Signs:
    """The random draws of one set of values, and the signs of its vectors and constants."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        seed = Draw.MIXED if draw is Draw.OPPOSITE else draw
        self.generator = torch.Generator().manual_seed(seed.value)
        self.lone_numbers = 0

    @property
    def are_equal(self) -> bool:
        return self.draw in (Draw.POSITIVE, Draw.NEGATIVE)

    def like(self, values: Tensor) -> Tensor:
        if self.are_equal:
            return torch.ones(values.shape) * (1 if self.draw is Draw.POSITIVE else -1)
        drawn = 2 * torch.randint(2, values.shape, generator=self.generator) - 1
        if values.numel() == 1:
            drawn = torch.ones_like(drawn) * (-1) ** self.lone_numbers
            self.lone_numbers += 1
        return drawn if self.draw is Draw.MIXED else -drawn


def _structural(own: Tensor, signs: _Signs, default: float) -> Tensor:
    if own.is_complex():
        return torch.view_as_complex(_structural(torch.view_as_real(own), signs, default))
    return torch.where(_is_mask_value(own), own, _draw_like(own, signs, default))


def _draw_like(own: Tensor, signs: _Signs, default: float) -> Tensor:
    if own.dim() > 1 and own.numel() > max(own.shape) and not bool(own.any()):
        return (torch.randn(own.shape, generator=signs.generator) * default).to(own)
    if own.dim() > 1 and own.numel() > 1 and not _is_constant(own):
        noise = torch.randn(own.shape, generator=signs.generator)
        return (noise * _rms_of_nonzero(own)).to(own)
    scale = own.abs().clamp(min=1.0) if signs.are_equal else torch.ones_like(own)
    return (_signed_magnitudes(own, signs) * scale).to(own)


def _signed_magnitudes(like: Tensor, signs: _Signs) -> Tensor:
    """Between 0.5 and 1.5; a lone number between 1 and 3."""
    drawn = torch.rand(like.shape, generator=signs.generator)
    sizes = 1 + 2 * drawn if like.numel() == 1 else 0.5 + drawn
    if not like.is_floating_point() and signs.are_equal:
        sizes = sizes * AFTER_WARMUP
    return (sizes * signs.like(like)).to(like)
