"""A decoder: each place sees its past and predicts the next token (Radford et al., 2018)."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from regard.attention.kinds import ATTENTION
from regard.core.count import Term
from regard.core.settings import name_of
from regard.models.architectures.language_model import LanguageModel
from regard.models.families import FAMILIES
from regard.models.families.transformer import Transformer


@FAMILIES.add(
    "decoder",
    predicts="the next token",
    objectives=("causal", "infill", "salient", "spans-in-row"),
)
class Decoder(Transformer):
    """A decoder-only Transformer, as GPT is."""

    across_documents: bool = True
    "In packed rows, let a document see the one before it; false keeps them apart."

    @model_validator(mode="after")
    def _keeps_order(self) -> Self:
        traits, name = self.attention.traits, name_of(self.attention, ATTENTION)
        if not traits.follows("causal"):
            raise ValueError(f"attention {name} cannot be kept from seeing the future")
        if not (self.across_documents or traits.follows("same-document")):
            raise ValueError(
                f"attention {name} cannot keep documents apart: set across_documents = true"
            )
        return self

    def build(self, *, vocabulary: int, seed: int) -> LanguageModel:
        embedding = self.build_embedding(vocabulary)
        model = LanguageModel(
            embedding,
            self.build_stack(),
            self.build_head(embedding),
            context=self.context,
            across_documents=self.across_documents,
        )
        model.cacheable = self.attention.traits.cacheable
        self.start(model, seed=seed)
        return model

    def count(self, vocabulary: int) -> list[Term]:
        return [
            *self.embedding_terms(vocabulary),
            *self.stack_terms(),
            *self.head_terms(vocabulary),
        ]
