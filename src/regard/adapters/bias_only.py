"""Bias only (BitFit): what linear layers and norms add is trained, what they multiply by is not.

    y = W x + b        norm(x) = g · (x − mean) / deviation + b        only b changes

Ben Zaken, Goldberg and Ravfogel, 2022. Biases of the embedding's norm and of all blocks count;
those of an output layer, a pooler or a span boundary network stand behind the body and do not.
"""

from __future__ import annotations

import torch

from regard.adapters import ADAPTERS, NOT_OF_THE_TRUNK, Adapter, letter
from regard.attention.function import HeadShape
from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.mixer import Mixer
from regard.core.count import Term
from regard.core.errors import UserError
from regard.core.settings import name_of
from regard.models.blocks.embedding import token_width
from regard.models.families import Family
from regard.models.families.encoder import Encoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.recurrent import Recurrent
from regard.models.families.transformer import Transformer
from regard.models.model import Model


@ADAPTERS.add("bias", trains="every bias of the body")
class BiasOnly(Adapter):
    """Train what linear layers and norms add, and nothing else of the body."""

    def change(self, body: Model, *, seed: int) -> None:
        found = [one for name, one in body.named_parameters() if is_bias(name)]
        if not found:
            raise UserError(
                "this model has no biases to train",
                topic="adapt",
                hint='Its linear layers were built without them: adapt by "lora" or "full".',
            )
        for parameter in found:
            parameter.requires_grad_(True)

    def terms(self, family: Family, *, vocabulary: int) -> list[Term]:
        if isinstance(family, Recurrent):
            return _recurrent_terms(family)
        if not isinstance(family, Transformer):
            return []
        if not isinstance(family, EncoderDecoder):
            return [*_embedding_terms(family), *_stack_terms(family)]
        written = _stack_terms(family, cross_attention=family.cross_attention)
        return [
            *(term.on("encoder") for term in _stack_terms(family)),
            *(term.on("decoder") for term in written),
        ]


def is_bias(name: str) -> bool:
    """Whether the parameter of this name is a bias of the body; a GRU's are `bias_ih_l0`, …"""
    own = name.rpartition(".")[2]
    named = own.endswith("bias") or own.startswith("bias_")
    return named and not name.startswith(NOT_OF_THE_TRUNK)


def _embedding_terms(family: Transformer) -> list[Term]:
    terms = []
    if isinstance(family, Encoder) and family.embedding_norm and _norms_add(family):
        terms.append(Term("embedding norm", "w", family.width))
    if isinstance(family, Encoder) and family.patch_values:
        embedding_width = token_width(family.width, family.positions)
        terms.append(Term("patch embedding", letter(embedding_width, family), embedding_width))
    return terms


def _stack_terms(
    family: Transformer, *, cross_attention: AttentionKind | None = None
) -> list[Term]:
    kinds = {"attention": family.attention}
    if cross_attention is not None:
        kinds["cross attention"] = cross_attention
    terms = [
        term.times(family.layers, "layers")
        for name, kind in kinds.items()
        for term in _attention_terms(family, kind, name=name)
    ]
    if family.biases:
        matrices = 2 if family.activation == "swiglu" else 1
        widened = "2f" if matrices == 2 else "f"
        value = matrices * family.hidden_width + family.width
        term = Term("feed-forward", f"{widened} + w", value)
        terms.append(term.times(family.layers, "layers"))
    if _norms_add(family):
        closing = 1 if family.norm_place == "pre" else 0
        count = (len(kinds) + 1) * family.layers + closing
        terms.append(Term("norms", f"{count} × w", count * family.width))
    return terms


def _attention_terms(family: Transformer, kind: AttentionKind, *, name: str) -> list[Term]:
    """Of one layer: queries and the output have w, keys and values as many as they are wide."""
    shape = family.head_shape(0)
    own, is_mixer = _own_biases(kind, shape)
    terms = [Term(f"{name}, {name_of(kind, ATTENTION)}", "its own", own)] if own else []
    if is_mixer or not family.biases:
        return terms
    kv_width = (family.key_value_heads or family.heads) * shape.width
    count = {"separate": 2, "shared-qk": 1, "shared-qkv": 0}[family.projections]
    letters = f"2·w + {count}·{letter(kv_width, family)}" if count else "2·w"
    return [Term(name, letters, 2 * family.width + count * kv_width), *terms]


def _own_biases(kind: AttentionKind, shape: HeadShape) -> tuple[int, bool]:
    """How many biases a kind itself brings, and whether it brings all that its attention has."""
    with torch.device("meta"):  # to know what would be built, at no cost
        part = kind.build(shape)
    named = part.named_parameters()
    return sum(one.numel() for name, one in named if is_bias(name)), isinstance(part, Mixer)


def _norms_add(family: Transformer) -> bool:
    return family.norm == "layer" and family.biases


def _recurrent_terms(family: Recurrent) -> list[Term]:
    w = family.width
    gru = Term("GRU", "6·w", 6 * w).times(family.layers, "layers")
    terms = [gru.on("encoder"), gru.on("decoder")]
    if family.attention is not None:
        shape = HeadShape(width=w, heads=1, context=family.context)
        own, is_mixer = _own_biases(family.attention, shape)
        terms.append(Term("attention", "4·w", 0 if is_mixer else 4 * w))
        if own:
            terms.append(Term(f"attention, {name_of(family.attention, ATTENTION)}", "its own", own))
        terms.append(Term("join", "w", w))
    return terms
