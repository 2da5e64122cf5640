"""Recurrent sequence-to-sequence baseline (GRU), to compare Transformers with."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, SerializeAsAny, model_validator

from regard.attention.function import HeadShape
from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.multi_head import build_mixer, count_mixer
from regard.core.ledger import ParameterCount
from regard.core.settings import CatalogField, catalog_name
from regard.core.untrusted import MAX_LAYERS
from regard.models.architectures.recurrent_model import RecurrentModel
from regard.models.families import FAMILIES, Family
from regard.models.families.attention_shape import AttentionShape, LinearShape
from regard.models.init_weights import init_weights


@FAMILIES.add("recurrent", predicts="a target from a source", objectives=("prefix",))
class Recurrent(Family):
    """A GRU encoder and a GRU decoder, with or without attention between them."""

    layers: int = Field(default=1, ge=1, le=MAX_LAYERS)
    "GRU layers in the encoder and in the decoder."
    width: int = Field(default=48, ge=1)
    "Hidden size: width of the GRU states and of the token embeddings."
    attention: Annotated[SerializeAsAny[AttentionKind] | None, CatalogField(ATTENTION)] = None
    "The kind of attention to the encoder states; not given: the decoder has the last state alone."
    tied: bool = True
    "Weight tying: the token embedding is the output layer."
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    "Dropout probability of activations."

    @model_validator(mode="after")
    def _check_attention(self) -> Self:
        if self.attention is not None and not self.attention.traits.cross:
            raise ValueError(
                f"attention {catalog_name(self.attention, ATTENTION)} stays within one sequence: "
                "choose another, such as additive"
            )
        return self

    def build(self, *, vocabulary: int, seed: int) -> RecurrentModel:
        mixer = None if self.attention is None else build_mixer(self.attention, self._shape)
        model = RecurrentModel(
            vocabulary,
            width=self.width,
            layers=self.layers,
            attention=mixer,
            dropout=self.dropout,
            context=self.context,
        )
        if self.tied:
            model.head.tie(model.tokens)
        init_weights(model, seed=seed, layers=self.layers)
        return model

    def count_parameters(self, vocabulary: int) -> list[ParameterCount]:
        w = self.width
        # Reset, update and candidate, each with two matrices and two biases.
        gru = ParameterCount("GRU", "6·w·w + 6·w", 6 * w * w + 6 * w)
        counts = [
            ParameterCount("token embedding", "v·w", vocabulary * w),
            gru.times(self.layers, "layers").on("encoder"),
            gru.times(self.layers, "layers").on("decoder"),
        ]
        if self.attention is not None:
            counts += count_mixer(self.attention, self._shape)
            counts.append(ParameterCount("join", "2·w·w + w", 2 * w * w + w))
        counts.append(
            ParameterCount("output layer", "0 (tied to the token embedding)", 0)
            if self.tied
            else ParameterCount("output layer", "v·w", vocabulary * w)
        )
        return counts

    def linear_layers(self) -> dict[str, LinearShape]:
        if self.attention is None:
            return {}
        w = self.width
        layers = AttentionShape(self.attention, self._shape, w).linear_layers()
        return {
            **{f"attention.{name}": shape for name, shape in layers.items()},
            "join": LinearShape(2 * w, w),
        }

    def count_biases(self) -> list[ParameterCount]:
        w = self.width
        gru = ParameterCount("GRU", "6·w", 6 * w).times(self.layers, "layers")
        counts = [gru.on("encoder"), gru.on("decoder")]
        if self.attention is not None:
            attention = AttentionShape(self.attention, self._shape, w)
            projections = 4 * w if attention.has_projections() else 0
            counts.append(ParameterCount("attention", "4·w", projections))
            counts += attention.count_own_biases("attention")
            counts.append(ParameterCount("join", "w", w))
        return counts

    @property
    def _shape(self) -> HeadShape:
        return HeadShape(width=self.width, heads=1, context=self.context)
