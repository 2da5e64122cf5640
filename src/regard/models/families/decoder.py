"""Decoder-only Transformer: causal self-attention, next-token logits (Radford et al., 2018)."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from regard.attention.kinds import ATTENTION
from regard.core.ledger import ParameterCount
from regard.core.settings import catalog_name
from regard.models.architectures.language_model import LanguageModel
from regard.models.families import FAMILIES
from regard.models.families.transformer import Transformer


@FAMILIES.add(
    "decoder",
    predicts="the next token",
    objectives=("causal", "infill", "salient", "spans-in-row"),
)
class Decoder(Transformer):
    """A decoder-only Transformer, as GPT."""

    across_documents: bool = True
    "In packed rows, let a document attend to those before it; false keeps them apart."

    @model_validator(mode="after")
    def _check_masks(self) -> Self:
        traits, name = self.attention.traits, catalog_name(self.attention, ATTENTION)
        if not traits.supports_mask("causal"):
            raise ValueError(f"attention {name} cannot be made causal")
        if not (self.across_documents or traits.supports_mask("same-document")):
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
        self.init_weights(model, seed=seed)
        return model

    def count_parameters(self, vocabulary: int) -> list[ParameterCount]:
        return [
            *self.count_embedding_parameters(vocabulary),
            *self.count_stack_parameters(),
            *self.count_head_parameters(vocabulary),
        ]
