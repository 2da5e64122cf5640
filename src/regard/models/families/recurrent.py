"""The recurrent baseline as a family: what Transformers are measured against on sequences."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, SerializeAsAny, model_validator

from regard.attention.function import HeadShape
from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.multi_head import build_mixer, count_mixer
from regard.core.count import Term
from regard.core.settings import CatalogField, name_of
from regard.models.architectures.recurrent_model import RecurrentModel
from regard.models.families import FAMILIES, Family
from regard.models.init_weights import init_weights


@FAMILIES.add("recurrent", predicts="a target from a source", objectives=("prefix",))
class Recurrent(Family):
    """A GRU that reads and a GRU that writes, with or without attention between them."""

    layers: int = Field(default=1, ge=1)
    "GRU layers on each side."
    width: int = Field(default=48, ge=1)
    "Length of the state, and of a token's vector."
    attention: Annotated[SerializeAsAny[AttentionKind] | None, CatalogField(ATTENTION)] = None
    "The kind by which the target looks at the source; not given: it sees the last state alone."
    tied: bool = True
    "Score tokens with the table that embeds them."
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    "Share of activations dropped in training."

    @model_validator(mode="after")
    def _attention_fits(self) -> Self:
        if self.attention is not None and not self.attention.traits.cross:
            raise ValueError(
                f"attention {name_of(self.attention, ATTENTION)} stays within one sequence: "
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

    def count(self, vocabulary: int) -> list[Term]:
        w = self.width
        # Reset, update and candidate, each with two matrices and two biases.
        gru = Term("GRU", "6·w·w + 6·w", 6 * w * w + 6 * w)
        terms = [
            Term("token embedding", "v·w", vocabulary * w),
            gru.times(self.layers, "layers").on("encoder"),
            gru.times(self.layers, "layers").on("decoder"),
        ]
        if self.attention is not None:
            terms += count_mixer(self.attention, self._shape)
            terms.append(Term("join", "2·w·w + w", 2 * w * w + w))
        terms.append(
            Term("output layer", "0 (tied to the token embedding)", 0)
            if self.tied
            else Term("output layer", "v·w", vocabulary * w)
        )
        return terms

    @property
    def _shape(self) -> HeadShape:
        return HeadShape(width=self.width, heads=1, context=self.context)
