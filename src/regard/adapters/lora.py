"""LoRA: a trained low-rank update beside frozen linear layers.

    y = W x + b + (α/r) · B A x        A: r × in, random; B: out × r, zero        Hu et al., 2022

As B is initialised to 0, a fresh LoRA changes nothing: it adds exact zeros. Merged, W becomes
W + (α/r)·B A, with no cost at inference. Shapes: r rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.adapters import ADAPTERS, OUTSIDE_BACKBONE, Adapter
from regard.core.errors import UserError
from regard.core.ledger import ParameterCount
from regard.models.families import Family
from regard.models.families.attention_shape import LinearShape
from regard.models.init_weights import named_generator
from regard.models.model import Model, TokenModel
from regard.nn.dropout import dropout
from regard.nn.linear import Linear


@ADAPTERS.add("lora", trains="a low-rank update of linear layers")
class Lora(Adapter):
    """Train a low-rank update beside the weights of linear layers."""

    new_parameters: ClassVar = ("lora_A", "lora_B")

    rank: int = Field(default=8, ge=1)
    "Rank r of the update."
    alpha: float = Field(default=16.0, gt=0.0)
    "The update is scaled by alpha / rank, so that another rank needs no other learning rate."
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    "Dropout probability on the input of the update."
    targets: tuple[str, ...] = Field(default=("query", "value"), min_length=1)
    "Linear layers by the end of their names, with * and ?: query, cross_attention.*, blocks.5.*"

    def adapt(self, body: TokenModel, *, seed: int) -> None:
        layers = linear_layers(body)
        shapes = {
            name: LinearShape(layer.in_features, layer.out_features)
            for name, layer in layers.items()
        }
        for name in self._target_layers(shapes):
            lora_a = _init_lora_a(layers[name], rank=self.rank, seed=seed, name=name)
            layer = LoraLinear(
                layers[name], lora_a, scale=self.alpha / self.rank, dropout=self.dropout
            )
            _replace_layer(body, name, layer)

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        shapes = family.linear_layers()
        if not shapes:
            raise UserError(
                f"{type(family).__name__} lists no linear layers, by which LoRA counts its "
                "parameters",
                topic="adapt",
                hint='Define linear_layers in the family, or adapt it by "full".',
            )
        layers: dict[tuple[str, LinearShape], int] = {}
        for name in self._target_layers(shapes):
            key = (_without_block_number(name), shapes[name])
            layers[key] = layers.get(key, 0) + 1
        return [
            ParameterCount(
                f"LoRA beside {name}",
                f"{self.rank}·({family.size_symbol(shape.in_features)} + "
                f"{family.size_symbol(shape.out_features)})",
                self.rank * (shape.in_features + shape.out_features),
            ).times(count, "layers")
            for (name, shape), count in layers.items()
        ]

    def merge(self, model: Model) -> None:
        body = model.body
        for name, module in list(body.named_modules()):
            if isinstance(module, LoraLinear):
                _replace_layer(body, name, module.merge())

    def _target_layers(self, shapes: Mapping[str, LinearShape]) -> list[str]:
        """The names of the targeted layers; an error if the rank exceeds a layer's own."""
        found = match_targets(self.targets, shapes)
        smallest = min(found, key=lambda name: min(shapes[name]))
        shape = shapes[smallest]
        if self.rank > min(shape):
            raise UserError(
                f"a rank of {self.rank} is more than {min(shape)}, the full rank of {smallest} "
                f"({shape.in_features} × {shape.out_features})",
                topic="adapt",
                where="adapt.rank",
                hint=f"Give at most {min(shape)}, or leave that layer out of adapt.targets.",
            )
        return found


class LoraLinear(Linear):
    """A linear layer with a low-rank update; weight and bias are the base layer's tensors, under
    the same names."""

    def __init__(self, base: nn.Linear, lora_a: Tensor, *, scale: float, dropout: float) -> None:
        # On the meta device: the base layer's parameters are used, and none is drawn.
        super().__init__(
            base.in_features, base.out_features, bias=base.bias is not None, device="meta"
        )
        self.weight = base.weight
        if base.bias is not None:
            self.bias = base.bias
        self.scale = scale
        self.dropout_p = dropout
        self.lora_A = nn.Parameter(lora_a.to(base.weight))
        self.lora_B = nn.Parameter(base.weight.new_zeros(base.out_features, len(lora_a)))
        self.train(base.training)

    def forward(self, x: Tensor) -> Tensor:
        dropped = dropout(x, self.dropout_p) if self.training else x
        update = F.linear(F.linear(dropped, self.lora_A), self.lora_B)
        return super().forward(x) + self.scale * update

    @torch.no_grad()
    def merge(self) -> nn.Linear:
        """A plain layer with the update added to the weight, in place."""
        plain = Linear(
            self.in_features, self.out_features, bias=self.bias is not None, device="meta"
        )
        # In float64, so that only the last rounding is lost.
        update = self.scale * (self.lora_B.double() @ self.lora_A.double())
        self.weight.copy_(self.weight.double() + update)
        plain.weight = self.weight
        if self.bias is not None:
            plain.bias = self.bias
        return plain.train(self.training)


def linear_layers(body: nn.Module) -> dict[str, nn.Linear]:
    """The linear layers of a model by name, without those outside the backbone: the output layer
    with its transform, the pooler, the boundary network."""
    return {
        name: module
        for name, module in body.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith(OUTSIDE_BACKBONE)
    }


def match_targets(targets: Iterable[str], names: Iterable[str]) -> list[str]:
    """The names that the targets match, in their order; a target without a match is an error."""
    names = list(names)
    found: set[str] = set()
    for target in targets:
        matched = {name for name in names if _matches_end(name, target)}
        if not matched:
            raise _unmatched_error(target, names)
        found |= matched
    return [name for name in names if name in found]


def _matches_end(name: str, target: str) -> bool:
    """Whether the name, or its end after some dot, matches the target pattern."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[begin:]), target) for begin in range(len(parts)))


def _unmatched_error(target: str, names: list[str]) -> UserError:
    if not names:
        return UserError(
            "this model has no linear layer for LoRA to adapt",
            topic="adapt",
            hint='Adapt it by "full" or "bias".',
        )
    ends = sorted({".".join(name.split(".")[-2:]) for name in names})
    return UserError(
        f"no linear layer of this model is named {target!r}; there are {', '.join(ends)}",
        topic="adapt",
        where="adapt.targets",
        hint=f"Give the end of a name, such as {ends[0]!r} or {ends[0].rpartition('.')[2]!r}.",
    )


def _init_lora_a(base: nn.Linear, *, rank: int, seed: int, name: str) -> Tensor:
    """Uniform within ±1/√in, as in the authors' code."""
    bound = base.in_features**-0.5
    generator = named_generator(seed, f"{name}.lora_A")
    return torch.empty(rank, base.in_features).uniform_(-bound, bound, generator=generator)


def _replace_layer(body: nn.Module, name: str, layer: nn.Linear) -> None:
    parent, _, attribute = name.rpartition(".")
    setattr(body.get_submodule(parent), attribute, layer)


def _without_block_number(name: str) -> str:
    """`stack.blocks.3.attention.query` → `attention.query`, with the side where there are two."""
    parts = name.split(".")
    if "blocks" not in parts:
        return name
    index = parts.index("blocks")
    side = [] if parts[:index] == ["stack"] else parts[:index]
    return ".".join([*side, *parts[index + 2 :]])
