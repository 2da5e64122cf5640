"""LoRA: beside a frozen matrix, a product of two thin ones is trained.

    y = W x + b + (α/r) · B A x        A: r × in, drawn; B: out × r, from 0        Hu et al., 2022

As B starts at 0 a fresh LoRA changes nothing: it adds exact zeros. Merged, W becomes W + (α/r)·B A
and costs nothing any more. Shapes: r rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.adapters import ADAPTERS, Adapter, body_of, letter
from regard.adapters.linear_layers import Size, linears_in, linears_of
from regard.core.count import Term
from regard.core.errors import UserError
from regard.models.families import Family
from regard.models.families.transformer import Transformer
from regard.models.init_weights import named_generator
from regard.models.model import Model
from regard.nn.dropout import dropout
from regard.nn.linear import Linear


@ADAPTERS.add("lora", trains="a low-rank change of linear layers")
class Lora(Adapter):
    """Train a change of low rank beside the matrices of linear layers."""

    rank: int = Field(default=8, ge=1)
    "How many directions the change of a matrix has."
    alpha: float = Field(default=16.0, gt=0.0)
    "The change is scaled by alpha / rank, so that another rank needs no other learning rate."
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    "Share of the inputs to the change that is dropped in training."
    targets: tuple[str, ...] = Field(default=("query", "value"), min_length=1)
    "Linear layers by the end of their names, with * and ?: query, cross_attention.*, blocks.5.*"

    def change(self, body: Model, *, seed: int) -> None:
        layers = linears_in(body)
        sizes = {name: Size(one.in_features, one.out_features) for name, one in layers.items()}
        for name in self._beside(sizes):
            start = _starting_a(layers[name], rank=self.rank, seed=seed, name=name)
            beside = LoraLinear(
                layers[name], start, scale=self.alpha / self.rank, dropout=self.dropout
            )
            _put(body, name, beside)

    def terms(self, family: Family, *, vocabulary: int) -> list[Term]:
        sizes = linears_of(family)
        sorts: dict[tuple[str, Size], int] = {}
        for name in self._beside(sizes):
            sort = (_without_number(name), sizes[name])
            sorts[sort] = sorts.get(sort, 0) + 1
        return [
            Term(
                f"LoRA beside {name}",
                f"{self.rank}·({_letter(size.inputs, family)} + {_letter(size.outputs, family)})",
                self.rank * (size.inputs + size.outputs),
            ).times(count, "layers")
            for (name, size), count in sorts.items()
        ]

    def merge(self, model: Model) -> None:
        body = body_of(model)
        for name, module in list(body.named_modules()):
            if isinstance(module, LoraLinear):
                _put(body, name, module.merged())

    def _beside(self, sizes: Mapping[str, Size]) -> list[str]:
        """The layers that it stands beside, none with fewer directions than the rank."""
        found = matching(self.targets, sizes)
        narrowest = min(found, key=lambda name: min(sizes[name]))
        size = sizes[narrowest]
        if self.rank > min(size):
            raise UserError(
                f"a rank of {self.rank} is more than the {min(size)} directions that a change of "
                f"{narrowest} ({size.inputs} × {size.outputs}) can have",
                topic="adapt",
                where="adapt.rank",
                hint=f"Give at most {min(size)}, or leave that layer out of adapt.targets.",
            )
        return found


class LoraLinear(Linear):
    """A linear layer with a trained change of low rank; weight and bias are the very ones that
    were there, under their names."""

    def __init__(self, base: nn.Linear, start: Tensor, *, scale: float, dropout: float) -> None:
        # On no device: the parameters are taken over, and none is to be drawn.
        super().__init__(
            base.in_features, base.out_features, bias=base.bias is not None, device="meta"
        )
        self.weight = base.weight
        if base.bias is not None:
            self.bias = base.bias
        self.scale = scale
        self.drop = dropout
        self.lora_A = nn.Parameter(start.to(base.weight))
        self.lora_B = nn.Parameter(base.weight.new_zeros(base.out_features, len(start)))
        self.train(base.training)

    def forward(self, x: Tensor) -> Tensor:
        read = dropout(x, self.drop) if self.training else x
        change = F.linear(F.linear(read, self.lora_A), self.lora_B)
        return super().forward(x) + self.scale * change

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A plain layer that gives the same."""
        plain = Linear(
            self.in_features, self.out_features, bias=self.bias is not None, device="meta"
        )
        # In float64, so that only the last rounding is lost.
        change = self.scale * (self.lora_B.double() @ self.lora_A.double())
        self.weight.copy_(self.weight.double() + change)
        plain.weight = self.weight
        if self.bias is not None:
            plain.bias = self.bias
        return plain.train(self.training)


def matching(targets: Iterable[str], names: Iterable[str]) -> list[str]:
    """The names that a target stands for, in their order; a target that stands for none is an
    error."""
    structure = list(names)
    found: set[str] = set()
    for target in targets:
        matched = {name for name in structure if _ends_in(name, target)}
        if not matched:
            raise _unmatched(target, structure)
        found |= matched
    return [name for name in structure if name in found]


def _ends_in(name: str, target: str) -> bool:
    """Whether the name, or the end of it after some dot, is of the target's form."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[begin:]), target) for begin in range(len(parts)))


def _unmatched(target: str, structure: list[str]) -> UserError:
    if not structure:
        return UserError(
            "this model has no linear layer that LoRA could stand beside",
            topic="adapt",
            hint='Adapt it by "full" or "bias".',
        )
    ends = sorted({".".join(name.split(".")[-2:]) for name in structure})
    return UserError(
        f"no linear layer of this model is named {target!r}; there are {', '.join(ends)}",
        topic="adapt",
        where="adapt.targets",
        hint=f"Give the end of a name, such as {ends[0]!r} or {ends[0].rpartition('.')[2]!r}.",
    )


def _starting_a(base: nn.Linear, *, rank: int, seed: int, name: str) -> Tensor:
    """Uniform within ±1/√in, as the authors' code draws it."""
    bound = base.in_features**-0.5
    generator = named_generator(seed, f"{name}.lora_A")
    return torch.empty(rank, base.in_features).uniform_(-bound, bound, generator=generator)


def _put(body: nn.Module, name: str, layer: nn.Linear) -> None:
    owner, _, own = name.rpartition(".")
    setattr(body.get_submodule(owner), own, layer)


def _without_number(name: str) -> str:
    """`stack.blocks.3.attention.query` → `attention.query`, with the side where there are two."""
    parts = name.split(".")
    if "blocks" not in parts:
        return name
    at = parts.index("blocks")
    side = [] if parts[:at] == ["stack"] else parts[:at]
    return ".".join([*side, *parts[at + 2 :]])


def _letter(number: int, family: Family) -> str:
    return letter(number, family) if isinstance(family, Transformer) else str(number)
