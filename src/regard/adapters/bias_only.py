"""Bias only (BitFit): the biases of linear layers and norms are trained, the weights are frozen.

    y = W x + b        norm(x) = g · (x − mean) / std + b        only b changes

Ben Zaken, Goldberg and Ravfogel, 2022. Biases of the embedding norm and of all blocks count; those
of an output layer, a pooler or a span boundary network are outside the backbone and do not.
"""

from __future__ import annotations

import torch

from regard.adapters import ADAPTERS, OUTSIDE_BACKBONE, Adapter, size_symbol
from regard.attention.function import HeadShape
from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.mixer import Mixer
from regard.core.errors import UserError
from regard.core.parameter_count import ParameterCount
from regard.core.settings import catalog_name
from regard.models.blocks.embedding import token_width
from regard.models.families import Family
from regard.models.families.encoder import Encoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.recurrent import Recurrent
from regard.models.families.transformer import Transformer
from regard.models.model import Model


@ADAPTERS.add("bias", trains="every bias of the body")
class BiasOnly(Adapter):
    """Train the biases of linear layers and norms, and nothing else of the body."""

    def adapt(self, body: Model, *, seed: int) -> None:
        biases = [parameter for name, parameter in body.named_parameters() if is_bias(name)]
        if not biases:
            raise UserError(
                "this model has no biases to train",
                topic="adapt",
                hint='Its linear layers were built without them: adapt by "lora" or "full".',
            )
        for parameter in biases:
            parameter.requires_grad_(True)

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        if isinstance(family, Recurrent):
            return _count_recurrent(family)
        if not isinstance(family, Transformer):
            return []
        if not isinstance(family, EncoderDecoder):
            return [*_count_embedding(family), *_count_stack(family)]
        decoder = _count_stack(family, cross_attention=family.cross_attention)
        return [
            *(count.on("encoder") for count in _count_stack(family)),
            *(count.on("decoder") for count in decoder),
        ]


def is_bias(name: str) -> bool:
    """Whether the parameter of this name is a bias of the backbone; a GRU's are `bias_ih_l0`, …"""
    last = name.rpartition(".")[2]
    named_bias = last.endswith("bias") or last.startswith("bias_")
    return named_bias and not name.startswith(OUTSIDE_BACKBONE)


def _count_embedding(family: Transformer) -> list[ParameterCount]:
    counts = []
    if isinstance(family, Encoder) and family.embedding_norm and _norms_have_biases(family):
        counts.append(ParameterCount("embedding norm", "w", family.width))
    if isinstance(family, Encoder) and family.patch_dim:
        width = token_width(family.width, family.positions)
        counts.append(ParameterCount("patch embedding", size_symbol(width, family), width))
    return counts


def _count_stack(
    family: Transformer, *, cross_attention: AttentionKind | None = None
) -> list[ParameterCount]:
    kinds = {"attention": family.attention}
    if cross_attention is not None:
        kinds["cross attention"] = cross_attention
    counts = [
        count.times(family.layers, "layers")
        for name, kind in kinds.items()
        for count in _count_attention(family, kind, name=name)
    ]
    if family.biases:
        hidden_layers = 2 if family.activation == "swiglu" else 1
        hidden_formula = "2f" if hidden_layers == 2 else "f"
        value = hidden_layers * family.resolved_mlp_width + family.width
        mlp = ParameterCount("feed-forward", f"{hidden_formula} + w", value)
        counts.append(mlp.times(family.layers, "layers"))
    if _norms_have_biases(family):
        final_norm = 1 if family.norm_placement == "pre" else 0
        norms = (len(kinds) + 1) * family.layers + final_norm
        counts.append(ParameterCount("norms", f"{norms} × w", norms * family.width))
    return counts


def _count_attention(
    family: Transformer, kind: AttentionKind, *, name: str
) -> list[ParameterCount]:
    """Of one layer: query and output projections have w, those of keys and values their width."""
    shape = family.head_shape(0)
    own, is_mixer = _biases_of_kind(kind, shape)
    counts = (
        [ParameterCount(f"{name}, {catalog_name(kind, ATTENTION)}", "its own", own)] if own else []
    )
    if is_mixer or not family.biases:
        return counts
    kv_width = (family.key_value_heads or family.heads) * shape.width
    kv_projections = {"separate": 2, "shared-qk": 1, "shared-qkv": 0}[family.projections]
    formula = "2·w"
    if kv_projections:
        formula += f" + {kv_projections}·{size_symbol(kv_width, family)}"
    value = 2 * family.width + kv_projections * kv_width
    return [ParameterCount(name, formula, value), *counts]


def _biases_of_kind(kind: AttentionKind, shape: HeadShape) -> tuple[int, bool]:
    """Biases of the attention kind itself, and whether it is a mixer without other projections."""
    with torch.device("meta"):  # builds without allocating
        built = kind.build(shape)
    parameters = built.named_parameters()
    biases = sum(parameter.numel() for name, parameter in parameters if is_bias(name))
    return biases, isinstance(built, Mixer)


def _norms_have_biases(family: Transformer) -> bool:
    return family.norm == "layer" and family.biases


def _count_recurrent(family: Recurrent) -> list[ParameterCount]:
    w = family.width
    gru = ParameterCount("GRU", "6·w", 6 * w).times(family.layers, "layers")
    counts = [gru.on("encoder"), gru.on("decoder")]
    if family.attention is not None:
        shape = HeadShape(width=w, heads=1, context=family.context)
        own, is_mixer = _biases_of_kind(family.attention, shape)
        counts.append(ParameterCount("attention", "4·w", 0 if is_mixer else 4 * w))
        if own:
            name = catalog_name(family.attention, ATTENTION)
            counts.append(ParameterCount(f"attention, {name}", "its own", own))
        counts.append(ParameterCount("join", "w", w))
    return counts
