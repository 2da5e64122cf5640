"""Architectures of transformers: conversion of settings and tensor names, in both directions.

An architecture converts a config.json into the settings of a family and maps every tensor of the
family's model to its name in the checkpoint. A config that the family cannot compute exactly is
refused, never approximated. One file each in `architectures/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
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
from regard.interop.huggingface.config_keys import ConfigKeys
from regard.models.families.transformer import Transformer
from regard.nn.mlp import ActivationName

ARCHITECTURES = Catalog("architecture", home="regard.interop.huggingface.architectures")

ACTIVATIONS: dict[str, ActivationName] = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
}
"Names of the ungated activations in transformers; of two names for one, export writes the first."

COMMON_SETTINGS: dict[str, Collection[Any]] = {
    "attention": (Dot(),),
    "projections": ("separate",),
}
"Settings that all these architectures share."


@dataclass(frozen=True)
class TensorMapping:
    """Name and layout of one of our tensors, or modules, in a transformers checkpoint."""

    name: str
    chunk: int = 0
    "Index of our tensor in a fused one, such as the value in a QKV matrix."
    chunks: int = 1
    "Number of our tensors that the checkpoint fuses into one."
    transposed: bool = False
    "The checkpoint stores the matrix as (in, out)."
    skipped_rows: int = 0
    "Leading rows that have no counterpart here."

    def extract(self, theirs: Tensor) -> Tensor:
        """Our tensor, from the checkpoint's."""
        rows_first = theirs.T if self.transposed and theirs.ndim > 1 else theirs
        return rows_first.chunk(self.chunks)[self.chunk][self.skipped_rows :]

    def checkpoint_shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """The checkpoint's shape of a tensor with our shape `ours`."""
        shape = (ours[0] * self.chunks + self.skipped_rows, *ours[1:])
        return shape[::-1] if self.transposed else shape


def merge_tensors(chunks: Iterable[tuple[TensorMapping, Tensor]]) -> Tensor:
    """The checkpoint's tensor, from all of ours that it fuses; the inverse of `extract`."""
    ordered = sorted(chunks, key=lambda item: item[0].chunk)
    mapping, first = ordered[0]
    tensors = [tensor for _, tensor in ordered]
    if mapping.skipped_rows:
        tensors = [first.new_zeros(mapping.skipped_rows, *first.shape[1:]), *tensors]
    merged = torch.cat(tensors) if len(tensors) > 1 else first
    return (merged.T if mapping.transposed and merged.ndim > 1 else merged).contiguous()


class Architecture(ABC):
    """Conversion of one architecture's checkpoints.

    A bare name is a tensor's name in the checkpoint without `prefix`.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    "The model family here."
    prefix: ClassVar[str]
    "Prefix of the body's tensors in a model with a head; some files omit it."
    peft_prefix: ClassVar[str]
    "Their prefix in the model that peft adapts."
    head_prefixes: ClassVar[tuple[str, ...]]
    "Prefixes of the tensors outside the body."
    objective: ClassVar[str]
    "The pretraining objective."
    classifier_name: ClassVar[str | None] = None
    "The linear layer of its sequence classifier, behind the pooler; None: regard knows none."
    peft_task: ClassVar[str]
    "The `task_type` of its adapters in peft."
    block_prefix: ClassVar[str]
    "Prefix of the block number in bare names."
    layers_key: ClassVar[str] = "num_hidden_layers"
    "Key of the number of blocks in config.json."

    @classmethod
    def for_config(cls, config: ConfigKeys) -> Architecture:
        """The architecture as configured by a checkpoint."""
        return cls()

    @classmethod
    def for_tokenizer(cls, tokenizer: Tokenizer) -> Architecture:
        """The architecture as exported with a tokenizer."""
        return cls()

    @abstractmethod
    def settings(
        self, config: ConfigKeys, available: frozenset[str], remarks: list[str]
    ) -> dict[str, Any]:
        """The family's settings; `available` are the bare names of the checkpoint's tensors. What
        cannot be computed exactly is an error; other differences go to `remarks`."""

    @abstractmethod
    def tensor_map(self, family: Transformer) -> dict[str, TensorMapping]:
        """For each parameter of the family's model its tensor in the checkpoint, by bare name."""

    def in_every_block(
        self, family: Transformer, block: Mapping[str, TensorMapping]
    ) -> dict[str, TensorMapping]:
        """Mappings of the modules of one block, expanded to all blocks."""
        return {
            f"stack.blocks.{layer}.{ours}": replace(
                theirs, name=f"{self.block_prefix}{layer}.{theirs.name}"
            )
            for layer in range(family.layers)
            for ours, theirs in block.items()
        }

    def aliases(self, family: Transformer) -> dict[str, str]:
        """Second names of shared tensors: bare name of the copy → bare name of the original."""
        return {}

    @abstractmethod
    def supported_settings(self, family: Transformer) -> dict[str, Collection[Any]]:
        """For each limited setting the values that this architecture can express."""

    def unsupported_settings(self, family: Transformer) -> list[str]:
        """The settings of its family that this architecture cannot express, as `key = value`."""
        supported = COMMON_SETTINGS | self.supported_settings(family)
        found = {key: getattr(family, key) for key in supported}
        return [
            f"{key} = {_spelled(value)}"
            for key, value in found.items()
            if value not in supported[key]
        ]

    @abstractmethod
    def config(self, family: Transformer, *, vocabulary: int) -> dict[str, Any]:
        """The config.json of this family."""

    def with_classifier(self) -> Architecture:
        """The architecture of a model with a head for sequences, whose names may differ."""
        return self

    def export_remarks(self, family: Transformer) -> list[str]:
        """Settings that the config cannot express and the outputs do not depend on."""
        return []

    def bare_name(self, name: str) -> str:
        """The bare name of a tensor in a file, as in `tensor_map`."""
        return name.removeprefix(self.prefix)

    def full_name(self, bare: str) -> str:
        """The name under which a tensor of `tensor_map` is exported."""
        return bare if bare.startswith(self.head_prefixes) else self.prefix + bare

    def module_names(self, family: Transformer) -> dict[str, TensorMapping]:
        """Our module path → their module (bare name), for each linear layer of the body."""
        return {
            ours.removesuffix(".weight"): replace(theirs, name=theirs.name.removesuffix(".weight"))
            for ours, theirs in self.tensor_map(family).items()
            if ours.endswith(".weight") and _is_linear_of_body(ours)
        }


def find_architecture(config: ConfigKeys) -> Architecture:
    """The architecture that a config's model_type names."""
    given = config.table.get("model_type")
    known = {
        model_type: entry
        for entry in ARCHITECTURES
        for model_type in entry.properties["model_types"]
    }
    if not isinstance(given, str) or given not in known:
        raise config.error(
            "model_type",
            f"regard reads {', '.join(known)}",
            hint="Give a checkpoint of one of these architectures.",
        )
    return architecture_class(known[given].name).for_config(config)


def architecture_class(name: str) -> type[Architecture]:
    """The class registered under `name`."""
    part = ARCHITECTURES.get(name).part
    assert isinstance(part, type)
    assert issubclass(part, Architecture)
    return part


def dropout_settings(dropout: float, attention: float) -> dict[str, float]:
    """Our two dropout settings; attention_dropout is left out if it equals dropout."""
    separate = {} if attention == dropout else {"attention_dropout": attention}
    return {"dropout": dropout, **separate}


def attention_dropout(family: Transformer) -> float:
    """The dropout probability of attention weights."""
    return family.dropout if family.attention_dropout is None else family.attention_dropout


def transformers_activation(family: Transformer) -> str:
    """The name of our activation in transformers."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == family.activation)


def per_parameter(
    modules: Mapping[str, TensorMapping], *, suffixes: Iterable[str]
) -> dict[str, TensorMapping]:
    """Expand mappings of modules to mappings of their weights and biases."""
    return {
        f"{ours}.{suffix}": replace(theirs, name=f"{theirs.name}.{suffix}")
        for ours, theirs in modules.items()
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
