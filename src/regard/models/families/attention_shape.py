"""The linear layers and biases of one attention, from settings alone: for adapters' formulas."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds import ATTENTION, AttentionKind, Projections
from regard.attention.mixer import Mixer
from regard.core.ledger import ParameterCount
from regard.core.settings import catalog_name


class LinearShape(NamedTuple):
    in_features: int
    out_features: int


class AttentionShape(NamedTuple):
    """One attention of a family's model."""

    kind: AttentionKind
    head: HeadShape
    key_value_width: int
    "Width of the keys and of the values, all heads together."
    projections: Projections = "separate"

    @property
    def kind_name(self) -> str:
        return catalog_name(self.kind, ATTENTION)

    def build_function(self) -> AttentionFunction | Mixer:
        """What the kind builds, without allocating it."""
        with torch.device("meta"):
            return self.kind.build(self.head)

    def linear_layers(self) -> dict[str, LinearShape]:
        """By name in the module."""
        built = self.build_function()
        own = {
            name: LinearShape(module.in_features, module.out_features)
            for name, module in built.named_modules()
            if isinstance(module, nn.Linear)
        }
        if isinstance(built, Mixer):
            return own
        w, kv_width = self.head.model_width, self.key_value_width
        shapes = {
            "query": LinearShape(w, w),
            "key": LinearShape(w, kv_width),
            "value": LinearShape(w, kv_width),
        }
        if self.projections != "separate":
            del shapes["key"]
        if self.projections == "shared-qkv":
            del shapes["value"]
        in_function = {f"function.{name}": shape for name, shape in own.items()}
        return {**in_function, **shapes, "out": LinearShape(w, w)}

    def has_projections(self) -> bool:
        """Whether it is multi-head attention, with projections around the kind's function."""
        return not isinstance(self.build_function(), Mixer)

    def count_own_biases(self, name: str) -> list[ParameterCount]:
        """Of the kind itself."""
        parameters = self.build_function().named_parameters()
        own = sum(parameter.numel() for name, parameter in parameters if is_bias(name))
        return [ParameterCount(f"{name}, {self.kind_name}", "its own", own)] if own else []


def is_bias(name: str) -> bool:
    """Whether the parameter of this name is a bias; those of a GRU are `bias_ih_l0`, …"""
    last = name.rpartition(".")[2]
    return last.endswith("bias") or last.startswith("bias_")
