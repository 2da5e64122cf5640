"""The linear layers of a model by name, with their sizes, as its settings tell them.

`stack.blocks.0.attention.query` → (w, w), … for every layer of the trunk, which a low-rank change
can be put beside. Left out is what stands behind it: networks that tell tokens, the output layer
and a pooler.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from regard.adapters import NOT_OF_THE_TRUNK
from regard.attention.function import HeadShape
from regard.attention.kinds import AttentionKind, Projections
from regard.attention.mixer import Mixer
from regard.models.blocks.embedding import token_width
from regard.models.families import Family
from regard.models.families.encoder import Encoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.recurrent import Recurrent
from regard.models.families.transformer import Transformer


class Size(NamedTuple):
    inputs: int
    outputs: int


def linears_in(body: nn.Module) -> dict[str, nn.Linear]:
    """The layers themselves, in a model."""
    return {
        name: module
        for name, module in body.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith(NOT_OF_THE_TRUNK)
    }


def linears_of(family: Family) -> dict[str, Size]:
    """Their sizes, from settings alone; nothing for a family that is not known here."""
    if isinstance(family, Recurrent):
        return _of_recurrent(family)
    if not isinstance(family, Transformer):
        return {}
    if not isinstance(family, EncoderDecoder):
        return {**_of_stack(family, "stack", None), **_beside_the_stack(family)}
    return {
        **_of_stack(family, "encoder", None),
        **_of_stack(family, "decoder", family.cross_attention),
    }


def _of_stack(
    family: Transformer, name: str, cross_attention: AttentionKind | None
) -> dict[str, Size]:
    return {
        f"{name}.blocks.{layer}.{inner}": size
        for layer in range(family.layers)
        for inner, size in _of_block(family, layer, cross_attention).items()
    }


def _of_block(
    family: Transformer, layer: int, cross_attention: AttentionKind | None
) -> dict[str, Size]:
    kinds = {"attention": family.attention}
    if cross_attention is not None:
        kinds["cross_attention"] = cross_attention
    shape = family.head_shape(layer)
    kv_width = (family.key_value_heads or family.heads) * shape.width
    sizes = {
        f"{name}.{inner}": size
        for name, kind in kinds.items()
        for inner, size in _of_attention(
            kind, shape, kv_width=kv_width, projections=family.projections
        ).items()
    }
    w, f = family.width, family.hidden_width
    if family.activation == "swiglu":
        sizes["mlp.gate_proj"] = Size(w, f)
    return sizes | {"mlp.up_proj": Size(w, f), "mlp.down_proj": Size(f, w)}


def _of_attention(
    kind: AttentionKind, shape: HeadShape, *, kv_width: int, projections: Projections
) -> dict[str, Size]:
    w = shape.model_width
    with torch.device("meta"):  # what a kind brings of its own, at no cost
        part = kind.build(shape)
    own = {
        name: Size(module.in_features, module.out_features)
        for name, module in part.named_modules()
        if isinstance(module, nn.Linear)
    }
    if isinstance(part, Mixer):
        return own
    sizes = {"query": Size(w, w), "key": Size(w, kv_width), "value": Size(w, kv_width)}
    if projections != "separate":
        del sizes["key"]
    if projections == "shared-qkv":
        del sizes["value"]
    return {**{f"rule.{name}": size for name, size in own.items()}, **sizes, "out": Size(w, w)}


def _beside_the_stack(family: Transformer) -> dict[str, Size]:
    if not isinstance(family, Encoder) or not family.patch_values:
        return {}
    return {
        "patches.values": Size(family.patch_values, token_width(family.width, family.positions))
    }


def _of_recurrent(family: Recurrent) -> dict[str, Size]:
    if family.attention is None:
        return {}
    w = family.width
    shape = HeadShape(width=w, heads=1, context=family.context)
    looking = _of_attention(family.attention, shape, kv_width=w, projections="separate")
    return {
        **{f"attention.{name}": size for name, size in looking.items()},
        "join": Size(2 * w, w),
    }
