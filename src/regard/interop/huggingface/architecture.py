"""Architectures of other tools: what their settings and names are called here, both ways.

An architecture turns a config.json into the settings of a family, and says of every tensor of the
family's model where it stands in their file. What a family cannot do exactly is refused, never
nearly done. One file each in `maps/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.kinds.dot import Dot
from regard.attention.positions import POSITIONS, PositionKind
from regard.core.catalog import Catalog
from regard.core.settings import catalog_name
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.huggingface.config_keys import Keys
from regard.models.families.transformer import Transformer
from regard.nn.mlp import ActivationName

ARCHITECTURES = Catalog("architecture", home="regard.interop.huggingface.architectures")

ACTIVATIONS: dict[str, ActivationName] = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
}
"What transformers calls the ungated activations; of two names for one, the first is written."

PLAIN = {"attention": Dot(), "projections": "separate"}
"What every architecture here has in each block."


@dataclass(frozen=True)
class TensorMapping:
    """Where a tensor, or a module, of ours stands in another tool's model."""

    name: str
    part: int = 0
    "Which of the parts, where several of ours are one there."
    parts: int = 1
    turned: bool = False
    "A matrix stands there as (in, out)."
    skipped: int = 0
    "Rows in front that mean nothing to us."

    def taken(self, theirs: Tensor) -> Tensor:
        """Ours, from theirs."""
        straight = theirs.T if self.turned and theirs.ndim > 1 else theirs
        return straight.chunk(self.parts)[self.part][self.skipped :]

    def shape_there(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """Of theirs, where ours has this one."""
        whole = (ours[0] * self.parts + self.skipped, *ours[1:])
        return whole[::-1] if self.turned else whole


def joined(parts: Iterable[tuple[TensorMapping, Tensor]]) -> Tensor:
    """Theirs, from all of ours that are one there."""
    ordered = sorted(parts, key=lambda part: part[0].part)
    place, first = ordered[0]
    tensors = [tensor for _, tensor in ordered]
    if place.skipped:
        tensors = [first.new_zeros(place.skipped, *first.shape[1:]), *tensors]
    whole = torch.cat(tensors) if len(tensors) > 1 else first
    return (whole.T if place.turned and whole.ndim > 1 else whole).contiguous()


class Architecture(ABC):
    """How the checkpoints of one architecture are made."""

    name: ClassVar[str]
    family: ClassVar[str]
    "Ours."
    prefix: ClassVar[str]
    "What stands before the names of the body where a head is beside it; files may leave it out."
    adapted_prefix: ClassVar[str]
    "What stands before them in the model that adapters are put on."
    head_names: ClassVar[tuple[str, ...]]
    "How the names of tensors begin that stand beside the body."
    objective: ClassVar[str]
    "What such models were pretrained to tell."
    task: ClassVar[str]
    "What peft calls the use that an adapter is made for."
    blocks: ClassVar[str]
    "What stands before the number of a block in bare names."
    layers_key: ClassVar[str] = "num_hidden_layers"
    "What config.json calls the number of blocks."

    @classmethod
    def for_config(cls, config: Keys) -> Architecture:
        """As a checkpoint's config has it."""
        return cls()

    @classmethod
    def for_tokenizer(cls, tokenizer: Tokenizer) -> Architecture:
        """As it is written for a tokenizer."""
        return cls()

    @abstractmethod
    def settings(self, config: Keys, held: frozenset[str], remarks: list[str]) -> dict[str, Any]:
        """Our family's settings; `held` are the bare names of what the file has. What cannot be
        done exactly is an error; what a person should know goes to the remarks."""

    @abstractmethod
    def tensor_map(self, family: Transformer) -> dict[str, TensorMapping]:
        """Where each tensor of the family's model stands, by bare name."""

    def copies(self, family: Transformer) -> dict[str, str]:
        """Bare names that repeat a tensor where it is shared, and the name it goes by."""
        return {}

    @abstractmethod
    def misfits(self, family: Transformer) -> list[str]:
        """The settings that this architecture does not have, as `key = value`."""

    @abstractmethod
    def config(self, family: Transformer, *, vocabulary: int) -> dict[str, Any]:
        """The config.json that means this family."""

    def left_out(self, family: Transformer) -> list[str]:
        """What the config cannot say and the outputs do not depend on."""
        return []

    def bare_name(self, name: str) -> str:
        """A name in a file, as `tensor_map` has it."""
        return name.removeprefix(self.prefix)

    def full_name(self, bare: str) -> str:
        """A name of `tensor_map`, as it is written to a file."""
        return bare if bare.startswith(self.head_names) else self.prefix + bare

    def module_names(self, family: Transformer) -> dict[str, TensorMapping]:
        """Where each linear layer of the body stands, by its path here; bare names."""
        return {
            ours.removesuffix(".weight"): replace(theirs, name=theirs.name.removesuffix(".weight"))
            for ours, theirs in self.tensor_map(family).items()
            if ours.endswith(".weight") and _is_linear_of_body(ours)
        }


def architecture_of(config: Keys) -> Architecture:
    """The one that a config's model_type names."""
    given = config.table.get("model_type")
    known = {sort: entry for entry in ARCHITECTURES for sort in entry.properties["model_types"]}
    if not isinstance(given, str) or given not in known:
        raise config.error(
            "model_type",
            f"regard reads {', '.join(known)}",
            hint="Give a checkpoint of one of these architectures.",
        )
    return kind_of(known[given].name).for_config(config)


def kind_of(name: str) -> type[Architecture]:
    """The class of a catalogue name."""
    part = ARCHITECTURES.get(name).part
    assert isinstance(part, type)
    assert issubclass(part, Architecture)
    return part


def misfits_of(family: Transformer, expected: Mapping[str, Any]) -> list[str]:
    """The settings that are not as expected, as a recipe writes them."""
    found = {key: getattr(family, key) for key in expected}
    return [f"{key} = {_spelled(value)}" for key, value in found.items() if value != expected[key]]


def dropouts(dropout: float, attention: float) -> dict[str, float]:
    """Our two settings; the second says nothing where it is as the first."""
    own = {} if attention == dropout else {"attention_dropout": attention}
    return {"dropout": dropout, **own}


def attention_dropout(family: Transformer) -> float:
    """What is dropped of attention weights."""
    return family.dropout if family.attention_dropout is None else family.attention_dropout


def their_activation(family: Transformer) -> str:
    """What transformers calls our activation."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == family.activation)


def per_parameter(
    modules: Mapping[str, TensorMapping], *, suffixes: Iterable[str]
) -> dict[str, TensorMapping]:
    """Places of modules as places of their weights and biases."""
    return {
        f"{ours}.{suffix}": replace(place, name=f"{place.name}.{suffix}")
        for ours, place in modules.items()
        for suffix in suffixes
    }


def _spelled(value: Any) -> str:
    if isinstance(value, AttentionKind):
        return catalog_name(value, ATTENTION)
    if isinstance(value, PositionKind):
        return catalog_name(value, POSITIONS)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_linear_of_body(name: str) -> bool:
    path = name.split(".")
    return path[0] in ("stack", "pooler") and path[-2] != "norm"
