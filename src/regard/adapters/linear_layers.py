"""The linear layers of a backbone by name: the modules of a model, their shapes from settings.

`stack.blocks.0.attention.query` → (w, w), … for every layer that LoRA can target. Layers outside
the backbone are left out: the output layer with its transform, the pooler, the boundary network.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from regard.adapters import OUTSIDE_BACKBONE
from regard.attention.function import HeadShape
from regard.attention.kinds import AttentionKind, Projections
from regard.attention.mixer import Mixer
from regard.models.blocks.embedding import token_width
from regard.models.families import Family
from regard.models.families.encoder import Encoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.recurrent import Recurrent
from regard.models.families.transformer import Transformer


class LinearShape(NamedTuple):
    in_features: int
    out_features: int


def linear_layers(body: nn.Module) -> dict[str, nn.Linear]:
    """The modules of a model, by name."""
    return {
        name: module
        for name, module in body.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith(OUTSIDE_BACKBONE)
    }


def linear_shapes(family: Family) -> dict[str, LinearShape]:
    """Their shapes, from settings alone; empty for a custom family."""
    if isinstance(family, Recurrent):
        return _recurrent_shapes(family)
    if not isinstance(family, Transformer):
        return {}
    if not isinstance(family, EncoderDecoder):
        return {**_stack_shapes(family, "stack", None), **_patch_embedding_shapes(family)}
    return {
        **_stack_shapes(family, "encoder", None),
        **_stack_shapes(family, "decoder", family.cross_attention),
    }


def _stack_shapes(
    family: Transformer, name: str, cross_attention: AttentionKind | None
) -> dict[str, LinearShape]:
    return {
        f"{name}.blocks.{layer}.{inner}": shape
        for layer in range(family.layers)
        for inner, shape in _block_shapes(family, layer, cross_attention).items()
    }


def _block_shapes(
    family: Transformer, layer: int, cross_attention: AttentionKind | None
) -> dict[str, LinearShape]:
    kinds = {"attention": family.attention}
    if cross_attention is not None:
        kinds["cross_attention"] = cross_attention
    head_shape = family.head_shape(layer)
    kv_width = (family.key_value_heads or family.heads) * head_shape.width
    shapes = {
        f"{name}.{inner}": shape
        for name, kind in kinds.items()
        for inner, shape in _attention_shapes(
            kind, head_shape, kv_width=kv_width, projections=family.projections
        ).items()
    }
    w, f = family.width, family.resolved_mlp_width
    if family.activation == "swiglu":
        shapes["mlp.gate_proj"] = LinearShape(w, f)
    return shapes | {"mlp.up_proj": LinearShape(w, f), "mlp.down_proj": LinearShape(f, w)}


def _attention_shapes(
    kind: AttentionKind, head_shape: HeadShape, *, kv_width: int, projections: Projections
) -> dict[str, LinearShape]:
    w = head_shape.model_width
    with torch.device("meta"):  # builds without allocating
        built = kind.build(head_shape)
    own = {
        name: LinearShape(module.in_features, module.out_features)
        for name, module in built.named_modules()
        if isinstance(module, nn.Linear)
    }
    if isinstance(built, Mixer):
        return own
    shapes = {
        "query": LinearShape(w, w),
        "key": LinearShape(w, kv_width),
        "value": LinearShape(w, kv_width),
    }
    if projections != "separate":
        del shapes["key"]
    if projections == "shared-qkv":
        del shapes["value"]
    in_function = {f"function.{name}": shape for name, shape in own.items()}
    return {**in_function, **shapes, "out": LinearShape(w, w)}


def _patch_embedding_shapes(family: Transformer) -> dict[str, LinearShape]:
    if not isinstance(family, Encoder) or not family.patch_dim:
        return {}
    width = token_width(family.width, family.positions)
    return {"patches.values": LinearShape(family.patch_dim, width)}


def _recurrent_shapes(family: Recurrent) -> dict[str, LinearShape]:
    if family.attention is None:
        return {}
    w = family.width
    head_shape = HeadShape(width=w, heads=1, context=family.context)
    attention = _attention_shapes(family.attention, head_shape, kv_width=w, projections="separate")
    return {
        **{f"attention.{name}": shape for name, shape in attention.items()},
        "join": LinearShape(2 * w, w),
    }
